//! Lines of an agent that are invalid text or too long.

use super::*;

#[test]
fn invalid_text_is_kept_with_replacements() {
    let mut talk = Talk::ready(None, json!({}));
    talk.input(ConversationInput::Line(AgentLine::Whole(
        b"\xef\xbb\xbf{\"method\":\"_x\",\"params\":[\"\xff\"]}\r",
    )));
    assert_eq!(talk.records[0].body, json!({"method": "_x", "params": ["\u{fffd}"]}));
    talk.input(ConversationInput::Line(AgentLine::Whole(b"{\"id\":null,\"result\":{}}")));
    assert_eq!(talk.records[1].body["reason"], "unexpected_response");
    talk.input(ConversationInput::Line(AgentLine::Whole(b"{\"id\":null,\"method\":\"m\"}")));
    assert_eq!(
        talk.sent()[0],
        json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32600, "message": talk.sent()[0]["error"]["message"]}})
    );
}

#[test]
fn a_line_that_its_replacements_make_too_long_is_noise() {
    let mut talk = Talk::ready(None, json!({}));
    let mut line = br#"{"method":"session/update","params":{"update":{"x":""#.to_vec();
    line.resize(subagent_protocol::MAX_LINE_BYTES / 3 + 1000, 0xff);
    line.extend(br#""}}}"#);
    talk.input(ConversationInput::Line(AgentLine::Whole(&line)));
    assert_eq!(talk.types(), [T::Noise]);
    let body = &talk.records[0].body;
    assert_eq!((&body["reason"], &body["bytes"]), (&json!("too_long"), &json!(line.len())));
}

#[test]
fn additional_data_keeps_a_record_within_its_limit() {
    // Half of a surrogate pair is not valid text, so nothing could be cut.
    let long = |fill: usize| format!(r#"{{"protocolVersion":1,"x":"\ud83d{}"}}"#, "x".repeat(fill));
    let mut talk = Talk::new(None, None);
    talk.started();
    let line = format!(r#"{{"id":1,"result":{}}}"#, long(subagent_protocol::MAX_LINE_BYTES - 1000));
    talk.input(ConversationInput::Line(AgentLine::Whole(line.as_bytes())));
    talk.line(json!({"id": 2, "result": {"sessionId": "s", "x": "x".repeat(100_000)}}));
    assert_eq!(talk.records.last().unwrap().t, T::Session);
    let call = json!({"sessionUpdate": "tool_call", "toolCallId": "a", "title": "x".repeat(64_000)});
    talk.line(json!({"method": "session/update", "params": {"update": call}}));
    let asked = format!(
        r#"{{"id":1,"method":"session/request_permission","params":{{"toolCall":{{"toolCallId":"a"}},"x":{}}}}}"#,
        long(subagent_protocol::MAX_LINE_BYTES - 1000)
    );
    talk.input(ConversationInput::Line(AgentLine::Whole(asked.as_bytes())));
    assert_eq!(talk.records.last().unwrap().t, T::ApprovalRequested);
}
