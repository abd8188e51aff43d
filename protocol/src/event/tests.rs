//! The public view of records and rows.

use super::*;
use crate::update;

fn stored(
    record: Option<RecordType>,
    event_type: EventType,
    kind: Option<&str>,
    payload: &str,
) -> StoredEvent {
    StoredEvent {
        seq: 1,
        at: Timestamp(0),
        event_type,
        kind: kind.map(str::to_owned),
        turn_id: None,
        carrier: Carrier::Runtime,
        record,
        payload: payload.to_owned(),
    }
}

#[test]
fn data_of_messages_and_updates() {
    let message = stored(
        Some(RecordType::Update),
        EventType::ProgressMessage,
        Some(update::MESSAGE),
        r#"{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"hi"}}}"#,
    );
    assert_eq!(message.data(), json!({"role": "assistant", "text": "hi"}));
    assert_eq!(message.raw()["update"]["content"]["text"], "hi");
    let call = stored(
        Some(RecordType::Update),
        EventType::ProgressUpdate,
        Some("tool_call"),
        r#"{"update":{"sessionUpdate":"tool_call","toolCallId":"1","title":"ls","kind":"execute","status":"pending"}}"#,
    );
    assert_eq!(
        call.data(),
        json!({"method":"session/update","kind":"tool_call","toolCallId":"1","title":"ls","toolKind":"execute","status":"pending"})
    );
}

#[test]
fn half_a_surrogate_pair_costs_one_character() {
    let message = stored(
        Some(RecordType::Update),
        EventType::ProgressMessage,
        Some(update::MESSAGE),
        r#"{"update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"hello \ud83d"}}}"#,
    );
    assert_eq!(message.data(), json!({"role": "assistant", "text": "hello \u{fffd}"}));
    assert_eq!(message.raw()["update"]["content"]["text"], "hello \u{fffd}");
    let view =
        ApprovalView::of(r#"{"toolCall":{"kind":"edit","title":"\ud83d"},"options":[{"optionId":"a"}]}"#);
    assert_eq!((view.message.as_str(), view.options.len()), ("Permission requested for edit: \u{fffd}", 1));
}

#[test]
fn a_damaged_payload_shows_empty_data() {
    assert_eq!(stored(Some(RecordType::Noise), EventType::ProgressUpdate, None, "{").data(), json!({}));
    assert_eq!(stored(None, EventType::TurnStarted, None, "x").data(), json!({}));
}

#[test]
fn a_permission_request_with_only_a_kind_gets_default_options() {
    let view = ApprovalView::of(r#"{"sessionId":"s","toolCall":{"kind":"edit"}}"#);
    assert_eq!(view.message, "Permission requested for edit");
    assert_eq!(view.options.iter().map(|o| o.id.as_str()).collect::<Vec<_>>(), ["allow", "deny"]);
    assert_eq!(ApprovalView::of("garbage").options.len(), 2);
}

#[test]
fn a_permission_request_names_its_subject() {
    let asked = stored(
        Some(RecordType::ApprovalRequested),
        EventType::ApprovalRequested,
        None,
        r#"{"requestId":"ap_0123456789","params":{"toolCall":{"toolCallId":"1","kind":"edit","status":"pending",
            "rawInput":{"command":["rm","a b"]},"locations":[{"path":"/a"},7],
            "content":[{"type":"diff","path":"/a","oldText":"x","newText":"y"}]}}}"#,
    );
    let mut data = asked.data();
    let options = data.as_object_mut().unwrap().remove("options").unwrap();
    assert_eq!(options.as_array().unwrap().len(), 2);
    assert_eq!(
        data,
        json!({
            "requestId": "ap_0123456789", "kind": "tool.call", "message": "Permission requested for edit: rm 'a b'",
            "toolCallId": "1", "toolKind": "edit", "rawInput": {"command": ["rm", "a b"]}, "command": "rm 'a b'",
            "locations": [{"path": "/a"}],
            "content": [{"type": "diff", "path": "/a", "oldText": "x", "newText": "y"}],
        })
    );
}

#[test]
fn raw_names_the_carrier_of_the_turn() {
    let mut event = stored(None, EventType::TurnStarted, None, "{}");
    assert_eq!(event.raw(), json!({"runtime": "acp-stdio", "phase": "turn.started"}));
    event.carrier = Carrier::Local;
    assert_eq!(event.raw(), json!({"runtime": "local", "phase": "turn.started"}));
}

#[test]
fn internal_types_are_hidden() {
    assert!(EventType::RuntimeDispatching.is_internal());
    assert!(!EventType::WorkerLost.is_internal());
}
