//! Elicitations: an agent's questions to its user, as a form or a link, and their answers.

use serde_json::{Value, json};
use subagent_tests::harness::{Output, TestSandbox, assert_shape};

mod faults;
mod sessions;

/// A form with a field of each type.
fn form() -> Value {
    json!({
        "mode": "form", "message": "How shall it be built?", "toolCallId": "t1",
        "requestedSchema": {"type": "object", "required": ["name", "size"], "properties": {
            "name": {"type": "string", "minLength": 1},
            "size": {"type": "integer", "minimum": 1, "maximum": 5},
            "share": {"type": "number"},
            "sure": {"type": "boolean"},
            "kind": {"type": "string", "oneOf": [{"const": "a", "title": "A"}, {"const": "b", "title": "B"}]},
            "tags": {"type": "array", "items": {"type": "string", "enum": ["x", "y"]}},
            "mail": {"type": "string", "format": "email"},
        }},
    })
}

/// Makes the agent ask. Returns the question's id with the data of `turn.waited`.
fn elicit(sandbox: &TestSandbox, worker: &str, params: &Value) -> (String, Value) {
    let waited = sandbox.send(worker, &format!("!elicit {params}"));
    assert_eq!(waited["matchedEvent"]["type"], "elicitation.requested", "{waited}");
    (waited["requestId"].as_str().unwrap().to_owned(), waited)
}

fn answer(sandbox: &TestSandbox, worker: &str, more: &[&str]) -> Output {
    sandbox.subagent(&["answer", "--worker-id", worker]).args(more.iter().copied()).run()
}

/// Returns the answer that the agent received, as it reports it.
fn answer_received(sandbox: &TestSandbox, worker: &str) -> Value {
    let events = sandbox.events(worker);
    let mut texts = events.iter().filter(|event| event["type"] == "progress.message");
    let text = texts.next_back().unwrap()["data"]["text"].as_str().unwrap();
    let said = text.strip_prefix("elicitation: ").unwrap();
    serde_json::from_str(said).unwrap_or_else(|_| said.into())
}

fn of_type(sandbox: &TestSandbox, worker: &str, wanted: &str) -> Vec<Value> {
    sandbox.events(worker).into_iter().filter(|event| event["type"] == wanted).collect()
}

#[test]
fn a_form_is_asked_filled_in_and_sent_to_the_agent() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let (request, waited) = elicit(&sandbox, &worker, &form());
    assert_eq!(waited["state"], "waiting_approval");
    assert_shape(
        &waited["matchedEvent"]["data"],
        &json!({
            "requestId": "str", "kind": "=elicitation", "message": "=How shall it be built?", "mode": "=form",
            "schema": "any", "toolCallId": "=t1",
        }),
    );
    assert_eq!(waited["matchedEvent"]["data"]["schema"], form()["requestedSchema"]);
    let set =
        ["name=demo", "size=3", "share=0.5", "sure=yes", "kind=b", "tags=y", "tags=x", "mail=a@b.example"];
    let set: Vec<&str> = set.iter().flat_map(|pair| ["--set", pair]).collect();
    let answered =
        answer(&sandbox, &worker, &[&["--request", &request, "--accept"], set.as_slice()].concat());
    let answered = answered.data_of("elicitation.answered");
    assert_shape(
        &answered,
        &json!({
            "workerId": "str", "requestId": "str", "action": "=accept", "state": "str", "eventId": "str",
            "delivery": "=delivered",
        }),
    );
    assert_eq!(sandbox.turn_end(&waited)["type"], "turn.completed");
    let content = json!({
        "name": "demo", "size": 3, "share": 0.5, "sure": true, "kind": "b", "tags": ["y", "x"], "mail": "a@b.example",
    });
    assert_eq!(answer_received(&sandbox, &worker), json!({"action": "accept", "content": content}));
    let events = of_type(&sandbox, &worker, "elicitation.answered");
    assert_eq!(events.len(), 1);
    assert_eq!(
        events[0]["data"],
        json!({
            "requestId": request, "action": "accept", "reason": null, "by": "owner",
            "fields": ["kind", "mail", "name", "share", "size", "sure", "tags"],
        })
    );
    sandbox.finish();
}

#[test]
fn an_answer_can_decline_or_cancel_and_needs_no_id_if_one_question_is_open() {
    let (sandbox, worker) = TestSandbox::with_worker();
    for (flag, action) in [("--decline", "decline"), ("--cancel", "cancel")] {
        let (request, waited) = elicit(&sandbox, &worker, &form());
        let answered = answer(&sandbox, &worker, &[flag]).data_of("elicitation.answered");
        assert_eq!((&answered["requestId"], &answered["action"]), (&json!(request), &json!(action)));
        let _ = sandbox.turn_end(&waited);
        assert_eq!(answer_received(&sandbox, &worker), json!({"action": action}));
    }
    let error = answer(&sandbox, &worker, &["--decline"]).error("APPROVAL_NOT_FOUND");
    assert_eq!(error["details"]["workerId"], worker);
    sandbox.finish();
}

#[test]
fn the_answer_can_come_as_structured_input() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let (request, waited) = elicit(&sandbox, &worker, &form());
    let input = json!({
        "workerId": worker, "requestId": request, "action": "accept", "content": {"name": "x", "size": 1},
    });
    let args = ["answer", "--input", "-"];
    let answered = sandbox.subagent(&args).stdin(input.to_string()).run().data_of("elicitation.answered");
    assert_eq!(answered["delivery"], "delivered");
    let _ = sandbox.turn_end(&waited);
    assert_eq!(answer_received(&sandbox, &worker)["content"], json!({"name": "x", "size": 1}));
    sandbox.finish();
}

#[test]
fn content_that_does_not_fit_is_refused_with_the_field_and_what_is_allowed() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let (_, waited) = elicit(&sandbox, &worker, &form());
    for (content, field, allowed) in [
        (json!({"name": "x"}), "size", json!({"type": "integer", "minimum": 1, "maximum": 5})),
        (
            json!({"name": "hunter2", "size": 6}),
            "size",
            json!({"type": "integer", "minimum": 1, "maximum": 5}),
        ),
        (json!({"name": "", "size": 1}), "name", json!({"type": "string", "minLength": 1})),
        (
            json!({"name": "x", "size": 1, "kind": "hunter2"}),
            "kind",
            json!({"type": "string", "enum": ["a", "b"]}),
        ),
        (
            json!({"name": "x", "size": 1, "mail": "hunter2"}),
            "mail",
            json!({"type": "string", "format": "email"}),
        ),
        (json!({"name": "x", "size": 1, "sure": "hunter2"}), "sure", json!({"type": "boolean"})),
    ] {
        let output = answer(&sandbox, &worker, &["--accept", "--content", &content.to_string()]);
        let error = output.error("INVALID_ELICITATION_CONTENT");
        assert_eq!((&error["details"]["field"], &error["details"]["allowed"]), (&json!(field), &allowed));
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }
    let error =
        answer(&sandbox, &worker, &["--accept", "--set", "nme=x"]).error("INVALID_ELICITATION_CONTENT");
    assert!(error["details"]["allowed"].as_array().unwrap().contains(&json!("name")), "{error}");
    answer(&sandbox, &worker, &["--decline", "--set", "name=x"]).error("INVALID_INPUT");
    answer(&sandbox, &worker, &[]).error("INVALID_INPUT");
    assert_eq!(sandbox.show(&worker)["state"], "waiting_approval", "this must not answer anything");
    answer(&sandbox, &worker, &["--cancel"]).data_of("elicitation.answered");
    let _ = sandbox.turn_end(&waited);
    sandbox.finish();
}

#[test]
fn each_command_says_which_one_answers_the_other_kind_of_question() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let (request, waited) = elicit(&sandbox, &worker, &form());
    let error = sandbox.approve(&worker, &json!(request), "allow").error("INVALID_INPUT");
    assert_eq!(error["details"]["kind"], "elicitation");
    assert!(
        error["details"]["recommendedCommand"].as_str().unwrap().starts_with("subagent answer "),
        "{error}"
    );
    let busy = sandbox.run(&["send", "--worker-id", &worker, "--text", "x"]).error("WORKER_BUSY");
    assert_eq!(busy["details"]["pendingRequestId"], request);
    answer(&sandbox, &worker, &["--decline"]).data_of("elicitation.answered");
    let _ = sandbox.turn_end(&waited);
    let waited = sandbox.send(&worker, "!ask execute it");
    let request = waited["requestId"].as_str().unwrap();
    let error = answer(&sandbox, &worker, &["--request", request, "--accept"]).error("INVALID_INPUT");
    assert_eq!(error["details"]["kind"], "permission");
    assert!(
        error["details"]["recommendedCommand"].as_str().unwrap().starts_with("subagent approve "),
        "{error}"
    );
    sandbox.approve(&worker, &json!(request), "allow").data_of("approval.decided");
    let _ = sandbox.turn_end(&waited);
    sandbox.finish();
}

#[test]
fn a_question_is_answered_once() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let (request, waited) = elicit(&sandbox, &worker, &form());
    let args = ["answer", "--worker-id", &worker, "--request", &request];
    let racing: Vec<_> = (0..6)
        .map(|index| sandbox.subagent(&args).args([["--decline", "--cancel"][index % 2]]).spawn())
        .collect();
    let outputs: Vec<Output> = racing.into_iter().map(|running| running.output()).collect();
    let winners: Vec<Value> = outputs.iter().filter(|o| o.status.success()).map(|o| o.data()).collect();
    assert_eq!(winners.len(), 1, "{outputs:#?}");
    let _ = sandbox.turn_end(&waited);
    assert_eq!(answer_received(&sandbox, &worker), json!({"action": winners[0]["action"]}));
    let late = answer(&sandbox, &worker, &["--request", &request, "--decline"]).error("APPROVAL_NOT_PENDING");
    assert_eq!(late["details"]["status"], "delivered");
    sandbox.finish();
}

#[test]
fn a_link_is_shown_clean_and_only_one_to_the_web_can_be_accepted() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let link = |url: &str| json!({"mode": "url", "message": "Log in", "elicitationId": "e1", "url": url});
    let (_, waited) = elicit(&sandbox, &worker, &link("https://a.example/\u{1b}[2Jlogin"));
    assert_eq!(
        waited["matchedEvent"]["data"],
        json!({
            "requestId": waited["requestId"], "kind": "elicitation", "message": "Log in", "mode": "url",
            "url": "https://a.example/[2Jlogin", "elicitationId": "e1",
        })
    );
    answer(&sandbox, &worker, &["--accept", "--set", "a=b"]).error("INVALID_ELICITATION_CONTENT");
    answer(&sandbox, &worker, &["--accept"]).data_of("elicitation.answered");
    let _ = sandbox.turn_end(&waited);
    assert_eq!(answer_received(&sandbox, &worker), json!({"action": "accept"}));
    let (_, waited) = elicit(&sandbox, &worker, &link("javascript:alert(1)"));
    assert_eq!(waited["matchedEvent"]["data"]["url"], Value::Null);
    let error = answer(&sandbox, &worker, &["--accept"]).error("INVALID_ELICITATION_CONTENT");
    assert_eq!(error["details"]["field"], Value::Null);
    answer(&sandbox, &worker, &["--decline"]).data_of("elicitation.answered");
    let _ = sandbox.turn_end(&waited);
    let done = r#"!raw {"jsonrpc":"2.0","method":"elicitation/complete","params":{"elicitationId":"e1"}}"#;
    let _ = sandbox.send(&worker, done);
    let events = of_type(&sandbox, &worker, "progress.update");
    let complete = events.iter().find(|event| event["data"]["method"] == "elicitation/complete").unwrap();
    assert_eq!(
        complete["data"],
        json!({"method": "elicitation/complete", "kind": "notification", "elicitationId": "e1"})
    );
    sandbox.finish();
}

#[test]
fn a_cancel_of_the_turn_answers_what_is_open() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let (request, waited) = elicit(&sandbox, &worker, &form());
    sandbox.run(&["cancel", "--worker-id", &worker, "--reason", "no"]).data_of("turn.canceled");
    let events = of_type(&sandbox, &worker, "elicitation.answered");
    assert_eq!(events.len(), 1);
    assert_eq!(
        events[0]["data"],
        json!({"requestId": request, "action": "cancel", "fields": [], "reason": "no", "by": "cancel"})
    );
    assert_eq!(events[0]["turnId"], waited["turnId"]);
    let _ = elicit(&sandbox, &worker, &form());
    sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    assert_eq!(of_type(&sandbox, &worker, "elicitation.canceled").len(), 1);
    sandbox.finish();
}

#[test]
fn open_questions_are_shown_and_waited_for() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let (request, waited) = elicit(&sandbox, &worker, &form());
    let shown = sandbox.show(&worker);
    assert_eq!(
        shown["questions"],
        json!([{"requestId": request, "kind": "elicitation", "message": "How shall it be built?"}])
    );
    let look = sandbox.run(&["worker", "inspect", &worker]).data_of("worker.inspected");
    let pending = &look["pendingApprovals"];
    assert_eq!((&pending[0]["kind"], &pending[0]["options"]), (&json!("elicitation"), &json!([])));
    assert_eq!(pending[0]["schema"], form()["requestedSchema"]);
    let args = ["wait", "--worker-id", &worker, "--include-history", "--until", "waiting_approval"];
    assert_eq!(sandbox.run(&args).data_of("event.matched")["type"], "elicitation.requested");
    answer(&sandbox, &worker, &["--decline"]).data_of("elicitation.answered");
    let _ = sandbox.turn_end(&waited);
    assert!(sandbox.show(&worker).get("questions").is_none());
    sandbox.finish();
}

#[test]
fn an_agent_on_the_official_sdk_understands_the_answers() {
    let mut sandbox = TestSandbox::new();
    let agent = sandbox.test_agent("sdk-agent", &[]);
    sandbox.launcher("sdk", agent);
    sandbox.init();
    let worker = sandbox.start("sdk");
    let content = json!({"kinds": ["y"], "name": "n", "share": 0.5, "size": 2, "sure": true});
    let accept = content.to_string();
    for (args, said) in [
        (&["--accept", "--content", &accept][..], accept.as_str()),
        (&["--decline"], "declined"),
        (&["--cancel"], "cancelled"),
    ] {
        let waited = sandbox.send(&worker, "elicit");
        assert_eq!(waited["matchedEvent"]["type"], "elicitation.requested", "{waited}");
        answer(&sandbox, &worker, args).data_of("elicitation.answered");
        let _ = sandbox.turn_end(&waited);
        let events = of_type(&sandbox, &worker, "progress.message");
        let texts: Vec<&str> = events.iter().filter_map(|event| event["data"]["text"].as_str()).collect();
        let expected = format!("elicitation: {said} ");
        assert!(texts.contains(&expected.as_str()), "{texts:?}");
    }
    sandbox.finish();
}
