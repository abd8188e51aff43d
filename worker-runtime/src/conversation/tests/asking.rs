//! Client requests that need a permission: files and terminals of a worker with rules.

use super::*;
use crate::acp::client_operation::{ClientOperation, ClientOperationStep, OperationSubject};
use crate::conversation::MAX_SHOWN_BYTES;
use subagent_protocol::start::ClientRules;

fn talk(rules: ClientRules) -> Talk {
    let mut talk = Talk::ready(None, json!({}));
    talk.conversation.config.client_rules = Some(rules);
    talk.prompt(5).unwrap();
    talk.forget();
    talk
}

fn all() -> ClientRules {
    ClientRules { read: true, edit: true, execute: true, guarded: Vec::new() }
}

fn write(id: u64, path: &str, content: &str) -> Value {
    json!({"id": id, "method": "fs/write_text_file", "params": {"sessionId": "s", "path": path, "content": content}})
}

fn run(id: u64, params: &Value) -> Value {
    json!({"id": id, "method": "terminal/create", "params": params})
}

/// Reports a resolved path. Returns the tool call of the question.
fn found(talk: &mut Talk, call: u64, path: &str) -> Option<Value> {
    assert!(matches!(talk.conversation.take_call(call), Some(ClientOperationStep::Find(_))));
    assert_eq!(talk.conversation.take_call(call), None, "once");
    talk.forget();
    let found = ResolvedRequest { path: path.to_owned(), text: Some("old".to_owned()) };
    talk.input(ConversationInput::CallFound { call, found: Ok(found) });
    let asked = talk.records.iter().find(|record| record.t == T::ApprovalRequested)?;
    assert_eq!((asked.turn, &asked.body["clientCall"]), (Some(5), &json!(call)));
    Some(asked.body["params"]["toolCall"].clone())
}

fn answer(talk: &mut Talk, option: Option<&str>, rule: Option<&str>) {
    let request_id = talk.conversation.open_approvals().remove(0);
    talk.forget();
    let [option_id, rule] = [option, rule].map(|text| text.map(str::to_owned));
    talk.command(RuntimeCommand::Answer { request_id, option_id, rule }).unwrap();
}

fn error(talk: &Talk) -> (i64, String) {
    let error = &talk.sent()[0]["error"];
    (error["code"].as_i64().unwrap(), error["message"].as_str().unwrap().to_owned())
}

#[test]
fn allowed_operations_use_the_resolved_path() {
    let mut talk = talk(all());
    talk.line(write(0, "/w/link", "new"));
    let call = found(&mut talk, 1, "/w/file").unwrap();
    assert_eq!(
        call,
        json!({
            "toolCallId": talk.conversation.open_approvals()[0], "title": "Write /w/link", "kind": "edit",
            "status": "pending", "rawInput": {"path": "/w/link", "bytes": 3}, "locations": [{"path": "/w/file"}],
            "content": [{"type": "diff", "path": "/w/link", "oldText": "old", "newText": "new"}],
        })
    );
    assert_eq!(talk.conversation.take_call(1), None, "no client or rule has allowed it");
    answer(&mut talk, Some("allow-once"), Some("edit"));
    assert_eq!(talk.types(), [T::AnswerWritten]);
    assert!(talk.actions.contains(&ConversationAction::Call(1)) && talk.sent().is_empty());
    let request = ClientOperation::Write { path: "/w/link".to_owned(), content: "new".to_owned() };
    assert_eq!(
        talk.conversation.take_call(1),
        Some(ClientOperationStep::Do(request, Some("/w/file".to_owned())))
    );
    assert_eq!(talk.conversation.take_call(1), None);
}

#[test]
fn a_denied_request_is_answered_with_the_rule() {
    for (option, rule, code, said) in [
        (Some("reject-once"), Some("edit(*.env)"), -32602, "the rule `edit(*.env)` of the worker denies it"),
        (Some("reject-once"), None, -32602, "the owner of the worker has rejected it"),
        (Some("another"), None, -32602, "rejected"),
        (None, None, -32800, "before it was canceled"),
    ] {
        let mut talk = talk(all());
        talk.line(write(0, "/w/.env", "x"));
        found(&mut talk, 1, "/w/.env").unwrap();
        answer(&mut talk, option, rule);
        assert_eq!(talk.types(), [T::AnswerWritten, T::ClientResponse]);
        let error = error(&talk);
        assert!(error.0 == code && error.1.contains(said), "{error:?}");
        assert_eq!(talk.conversation.take_call(1), None);
    }
}

#[test]
fn only_subjects_of_rules_need_a_decision() {
    let guarded = vec!["/w/.agents".into()];
    let mut talk = talk(ClientRules { guarded, ..ClientRules::default() });
    talk.line(json!({"id": 0, "method": "fs/read_text_file", "params": {"path": "/w/a"}}));
    assert!(matches!(talk.conversation.take_call(1), Some(ClientOperationStep::Do(_, None))));
    talk.line(run(1, &json!({"command": "ls"})));
    assert!(matches!(talk.conversation.take_call(2), Some(ClientOperationStep::Do(_, None))));
    talk.line(write(2, "/w/a", ""));
    assert_eq!(found(&mut talk, 3, "/w/a"), None);
    assert!(
        matches!(talk.conversation.take_call(3), Some(ClientOperationStep::Do(_, Some(path))) if path == "/w/a")
    );
    for (call, path, leads) in [(4, "/w/link", "/w/.agents/x"), (5, "/w/x/../.agents/x", "/w/elsewhere")] {
        talk.line(write(call, path, ""));
        assert!(found(&mut talk, call, leads).is_some(), "{path}");
    }
    let mut without = Talk::ready(None, json!({}));
    without.line(write(0, "/w/.agents/x", ""));
    assert!(
        matches!(without.conversation.take_call(1), Some(ClientOperationStep::Do(_, None))),
        "no rules at all"
    );
}

#[test]
fn a_command_is_asked_for_with_its_variables_and_without_their_values() {
    let asks = |params: Value| {
        let mut talk = talk(all());
        talk.line(run(0, &params));
        let call = found(&mut talk, 1, "/w/sub");
        call.map(|call| (call["title"].clone(), call["rawInput"].clone())).ok_or_else(|| error(&talk).1)
    };
    assert_eq!(
        asks(json!({"command": "make a && make b"})).unwrap(),
        (json!("make a && make b"), json!({"command": "make a && make b", "cwd": "/w/sub"}))
    );
    let words = json!(["env", "KEY=...", "make", "-j", "a b"]);
    let with = json!({"command": "make", "args": ["-j", "a b"], "env": [{"name": "KEY", "value": "secret"}]});
    assert_eq!(
        asks(with).unwrap(),
        (json!("env KEY=... make -j a b"), json!({"command": words, "cwd": "/w/sub"}))
    );
    let odd = json!({"command": "make", "env": [{"name": "BASH_FUNC_ls%%", "value": "() { rm x; }"}]});
    assert!(asks(odd).unwrap_err().contains("cannot judge a variable"));
    let long = json!({"command": "make", "args": ["x".repeat(MAX_SHOWN_BYTES)]});
    assert!(asks(long).unwrap_err().contains("more than 64 KiB"));
}

#[test]
fn waiting_entries_end_with_their_turn_or_request() {
    type End = fn(&mut Talk);
    let ends: [(End, &str, &str); 4] = [
        (
            |talk| talk.command(RuntimeCommand::Cancel { turn: 5, reason: "r".to_owned() }).unwrap(),
            "turn_canceled",
            "canceled",
        ),
        (
            |talk| talk.line(json!({"id": 3, "result": {"stopReason": "end_turn"}})),
            "turn_ended",
            "the turn ended",
        ),
        (
            |talk| talk.line(json!({"method": "$/cancel_request", "params": {"requestId": 0}})),
            "withdrawn",
            "the request was withdrawn",
        ),
        (
            |talk| talk.input(ConversationInput::End { reason: "r".to_owned() }),
            "stopped",
            "the worker is being stopped",
        ),
    ];
    for (end, reason, said) in ends {
        let mut talk = talk(all());
        talk.line(write(0, "/w/a", ""));
        found(&mut talk, 1, "/w/a").unwrap();
        talk.forget();
        end(&mut talk);
        assert_eq!(body(&talk, T::ApprovalClosed)["reason"], reason);
        let response = body(&talk, T::ClientResponse);
        assert!(response["error"]["message"].as_str().unwrap().contains(said), "{response}");
        let errors = talk.sent().iter().filter(|sent| sent["error"].is_object()).count();
        assert_eq!(errors, 1, "{reason}");
        assert_eq!(talk.conversation.take_call(1), None);
        assert!(talk.conversation.open_approvals().is_empty());
    }
    // During a cancel, no permission is requested.
    let mut talk = talk(all());
    talk.command(RuntimeCommand::Cancel { turn: 5, reason: "r".to_owned() }).unwrap();
    talk.line(write(0, "/w/a", ""));
    found(&mut talk, 1, "/w/a").unwrap();
    assert_eq!(talk.types(), [T::ApprovalRequested, T::ApprovalClosed, T::ClientResponse]);
}

#[test]
fn the_number_of_waiting_requests_is_bounded() {
    let mut talk = talk(all());
    for id in 0..256 {
        talk.line(json!({"id": 1000 + id, "method": "session/request_permission", "params": {}}));
    }
    talk.line(write(0, "/w/a", ""));
    assert_eq!(found(&mut talk, 1, "/w/a"), None);
    assert_eq!(error(&talk).1, "too many open questions");
    talk.line(write(1, "/w/b", &"x".repeat(MAX_SHOWN_BYTES + 1)));
    let step = talk.conversation.take_call(2);
    assert_eq!(
        step,
        Some(ClientOperationStep::Find(OperationSubject::Target("/w/b".to_owned(), false))),
        "it is not shown"
    );
}

#[test]
fn a_full_disk_takes_nothing_from_what_waits() {
    let mut talk = talk(all());
    talk.line(write(0, "/w/a", ""));
    found(&mut talk, 1, "/w/a").unwrap();
    talk.input(ConversationInput::Storage(Storage::Full));
    talk.line(write(1, "/w/b", ""));
    talk.forget();
    talk.command(RuntimeCommand::Cancel { turn: 5, reason: "r".to_owned() }).unwrap();
    // The request without a record has no response; the other one has.
    let failed: Vec<i64> = talk
        .sent()
        .iter()
        .filter(|sent| sent["error"].is_object())
        .filter_map(|sent| sent["id"].as_i64())
        .collect();
    assert_eq!(failed, [1, 0]);
    assert_eq!(body(&talk, T::ClientResponse)["call"], 1);
}
