//! Questions from outside the turn: of sessions below the worker's own, of a request,
//! or without a turn.

use serde_json::{Value, json};
use subagent_tests::harness::TestSandbox;

use super::{answer, answer_received, elicit, of_type};

fn question(more: &Value) -> Value {
    let mut question = json!({"mode": "form", "message": "Which?", "requestedSchema": {"type": "object"}});
    question.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    question
}

fn announce(update: &Value) -> String {
    let mut update = update.clone();
    update["sessionUpdate"] = "subagent_update".into();
    let params = json!({"sessionId": "SESSION", "update": update});
    format!("!raw {}", json!({"jsonrpc": "2.0", "method": "session/update", "params": params}))
}

#[test]
fn a_question_about_a_request_or_of_another_session_is_answered_like_any_other() {
    let (sandbox, worker) = TestSandbox::with_worker();
    for (scope, session) in
        [(json!({"requestId": 7}), Value::Null), (json!({"sessionId": "c1"}), json!("c1"))]
    {
        let (_, waited) = elicit(&sandbox, &worker, &question(&scope));
        assert_eq!(waited["matchedEvent"]["data"].get("sessionId"), Some(&session).filter(|s| !s.is_null()));
        answer(&sandbox, &worker, &["--accept"]).data_of("elicitation.answered");
        let _ = sandbox.turn_end(&waited);
        assert_eq!(answer_received(&sandbox, &worker), json!({"action": "accept", "content": {}}));
    }
    sandbox.finish();
}

#[test]
fn a_question_outside_of_a_turn_is_kept_and_answered() {
    let (sandbox, worker) = TestSandbox::with_worker();
    // The agent asks in the last output of the turn; its question then belongs to no turn.
    let late = json!({
        "jsonrpc": "2.0", "id": 4242, "method": "elicitation/create",
        "params": question(&json!({"sessionId": "SESSION"})),
    });
    let script = format!(
        "!raw {{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{{\"stopReason\":\"end_turn\"}}}}\n!raw {late}"
    );
    let accepted = sandbox.send_no_wait(&worker, &script);
    let cursor = accepted["acceptedEventId"].as_str().unwrap();
    let asked = sandbox.wait_after(&worker, &json!(cursor), "elicitation.requested");
    let request = asked["data"]["requestId"].as_str().unwrap();
    let answered =
        answer(&sandbox, &worker, &["--request", request, "--decline"]).data_of("elicitation.answered");
    assert_eq!(answered["requestId"], request);
    sandbox.finish();
}

#[test]
fn sessions_below_the_workers_are_listed_and_their_permission_requests_can_be_decided() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let ask = json!({
        "jsonrpc": "2.0", "id": 4242, "method": "session/request_permission",
        "params": {"sessionId": "c1", "toolCall": {"toolCallId": "t", "title": "rm"},
            "options": [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]},
    });
    let running = announce(&json!({"sessionId": "c1", "title": "Tests", "state": {"state": "running"}}));
    let idle = announce(&json!({"sessionId": "c2", "state": {"state": "idle", "stopReason": "end_turn"}}));
    let waited = sandbox.send(&worker, &format!("{running}\n{idle}\n!raw {ask}\n!sleep 60000"));
    assert_eq!(waited["matchedEvent"]["type"], "approval.requested");
    let data = &waited["matchedEvent"]["data"];
    assert_eq!((&data["sessionId"], &data["sessionTitle"]), (&json!("c1"), &json!("Tests")));
    let shown = sandbox.show(&worker);
    assert_eq!(
        shown["childSessions"],
        json!([
            {"sessionId": "c1", "title": "Tests", "state": "running"},
            {"sessionId": "c2", "title": null, "state": "idle"},
        ])
    );
    let decided = sandbox.approve(&worker, &waited["requestId"], "allow").data_of("approval.decided");
    assert_eq!((&decided["optionId"], &decided["delivery"]), (&json!("yes"), &json!("delivered")));
    sandbox.run(&["cancel", "--worker-id", &worker]).data_of("turn.canceled");
    assert_eq!(of_type(&sandbox, &worker, "turn.canceled").len(), 1);
    sandbox.finish();
}

#[test]
fn a_session_below_the_workers_is_canceled_alone_where_the_agent_lets_it_be() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let running = json!({"sessionId": "c 1/", "title": "Tests", "capabilities": {"cancel": {}}, "state": {"state": "running"}});
    let stubborn = json!({"sessionId": "c2", "state": {"state": "running"}});
    let gate = sandbox.gate("end");
    let script = format!("{}\n{}\n!say told\n{}", announce(&running), announce(&stubborn), gate.directive());
    let accepted = sandbox.send_no_wait(&worker, &script);
    let cursor = &accepted["acceptedEventId"];
    let _ = sandbox.wait_after(&worker, cursor, "progress.message");
    let cancel = |session: &str| {
        sandbox.run(&["cancel", "--worker-id", &worker, "--child-session", session, "--json"])
    };
    let answer_received = cancel("c 1/").data_of("childSession.canceled");
    assert_eq!(answer_received, json!({"workerId": worker, "sessionId": "c 1/"}));
    // The same as for unknown sessions.
    for session in ["c2", "c3"] {
        let error = cancel(session).error("SESSION_NOT_FOUND");
        assert_eq!(error["details"]["sessionId"], session);
    }
    // The turn continues, and the agent's report about one session is known.
    gate.open();
    let ended = sandbox.wait_after(&worker, cursor, "turn.completed");
    assert_eq!(ended["turnId"], accepted["turnId"]);
    let states: Vec<Value> = sandbox.show(&worker)["childSessions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|child| json!([child["sessionId"], child["state"]]))
        .collect();
    assert_eq!(states, [json!(["c2", "running"]), json!(["c 1/", "idle"])]);

    let stopped = |args: &[&str]| sandbox.run(&[&["cancel", "--worker-id", &worker], args].concat());
    let _ = sandbox.run(&["worker", "stop", &worker]);
    stopped(&["--child-session", "c2"]).error("WORKER_STOPPED");
    sandbox.finish();
}
