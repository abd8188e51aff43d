//! `worker inspect`: the last events that fit, open questions, the latest snapshot.

use serde_json::{Value, json};
use subagent_tests::harness::{TestSandbox, assert_shape};

use super::{shown, text};

fn inspect(sandbox: &TestSandbox, worker: &str, flags: &[&str]) -> Value {
    sandbox.run(&[&["worker", "inspect", worker], flags].concat()).data_of("worker.inspected")
}

fn types(data: &Value) -> Vec<&str> {
    data["events"].as_array().unwrap().iter().map(|event| text(&event["type"])).collect()
}

#[test]
fn a_look_has_exactly_its_keys() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let asked = sandbox.send(&worker, "!ask execute make clean");
    let _ = sandbox.run(&["worker", "handoff", "--worker-id", &worker]).data_of("worker.handoff.ready");
    let data = inspect(&sandbox, &worker, &["--events-limit", "1000"]);
    let option = json!({"id": "str", "alias": "str", "label": "str", "kind!": "str"});
    assert_shape(
        &data,
        &json!({
            "worker": shown(),
            "pendingApprovals": [{"requestId": "ap", "turnId": "turn?", "kind": "=tool.call", "message": "str",
                                  "options": [option], "createdAt": "ts", "status": "=pending",
                                  "toolCallId!": "str", "title!": "str", "toolKind!": "str", "rawInput!": "any", "command!": "str", "content!": "list", "locations!": "list"}],
            "latestHandoff": {"snapshotId": "hs", "handoffPath": "str", "checkpointPath": "str", "createdAt": "ts",
                              "upToEventId": "ev"},
            "events": [{"eventId": "ev", "ts": "ts", "type": "str", "turnId": "turn?", "data": "object"}],
        }),
    );
    assert_eq!(data["pendingApprovals"][0]["requestId"], asked["requestId"]);
    assert_eq!(data["worker"]["state"], "waiting_approval");
    let started = ["worker", "start", "--launcher", "demo", "--deny", "execute(rm *)"];
    let ruled = sandbox.run(&started).data_of("worker.started");
    assert_shape(
        &inspect(&sandbox, text(&ruled["workerId"]), &[])["policy"],
        &json!({"workspace": "str", "home!": "str",
                "layers": [{"layer": "=owner", "rules": [{"rule": "=execute(rm *)", "action": "=deny"}]}]}),
    );
    let _ = sandbox.approve(&worker, &asked["requestId"], "allow").data_of("approval.decided");
    assert_eq!(inspect(&sandbox, &worker, &[])["pendingApprovals"], json!([]));
    sandbox.finish();
}

#[test]
fn the_last_events_come_in_order_and_the_tail_wins_over_the_limit() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let _ = sandbox.send(&worker, "!chunks 30 x");
    let data = inspect(&sandbox, &worker, &[]);
    assert_eq!((types(&data).len(), types(&data).last()), (20, Some(&"turn.completed")));
    assert_eq!(data["latestHandoff"], Value::Null);
    let data = inspect(&sandbox, &worker, &["--events-limit", "9", "--tail", "3"]);
    assert_eq!(types(&data), ["progress.message", "progress.message", "turn.completed"]);
    let ids: Vec<&str> =
        data["events"].as_array().unwrap().iter().map(|event| text(&event["eventId"])).collect();
    assert!(ids.is_sorted(), "{ids:?}");
    for wrong in ["0", "1001", "x"] {
        let output = sandbox.subagent(&["worker", "inspect", &worker, "--tail", wrong]).run();
        assert_eq!(output.status.code(), Some(2), "{output}");
    }
    let types: Vec<String> = (0..1100).map(|kind| format!("--event-type=progress.update:k{kind}")).collect();
    let many = sandbox.subagent(&["worker", "inspect", &worker]).args(types).run();
    let _ = many.error("INVALID_ARGUMENT");
    sandbox.finish();
}

#[test]
fn filters_are_anded() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let first = sandbox.send(&worker, "!plan a|b\n!think hm\none");
    let second = sandbox.send(&worker, "!plan c\ntwo");
    let turn = text(&first["turnId"]).to_owned();
    let of_turn = inspect(&sandbox, &worker, &["--turn-id", &turn]);
    assert!(of_turn["events"].as_array().unwrap().iter().all(|event| event["turnId"] == *turn), "{of_turn}");
    assert_eq!((types(&of_turn)[0], types(&of_turn).last()), ("turn.started", Some(&"turn.completed")));
    let plans = ["--event-type", "progress.update:plan"];
    assert_eq!(types(&inspect(&sandbox, &worker, &plans)).len(), 2);
    let both = inspect(&sandbox, &worker, &[&plans[..], &["--turn-id", text(&second["turnId"])]].concat());
    assert_eq!(both["events"][0]["data"]["entries"][0]["content"], "c");
    let two = ["--event-type", "message.sent", "--event-type", "turn.completed", "--turn-id", &turn];
    assert_eq!(types(&inspect(&sandbox, &worker, &two)), ["message.sent", "turn.completed"]);
    let mixed = ["--event-type", "message.sent", "--event-type", "progress.update:thought"];
    assert_eq!(
        types(&inspect(&sandbox, &worker, &mixed)),
        ["message.sent", "progress.update", "message.sent"]
    );
    for nothing in [
        &["--event-type", "turn.over"][..],
        &["--event-type", ""],
        &["--event-type", "runtime.turn_end"],
        &["--turn-id", "turn_0000000000"],
    ] {
        assert_eq!(inspect(&sandbox, &worker, nothing)["events"], json!([]), "{nothing:?}");
    }
    sandbox.finish();
}

#[test]
fn since_is_a_time_however_it_is_written() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let _ = sandbox.send(&worker, "one");
    let last = inspect(&sandbox, &worker, &["--tail", "1"])["events"][0].take();
    let now = text(&last["ts"]);
    let count = |since: &str| types(&inspect(&sandbox, &worker, &["--since", since])).len();
    assert!(count(now) > 0, "an event is found by its own time");
    assert_eq!(count(&now.replace("+00:00", "Z")), count(now));
    let all = inspect(&sandbox, &worker, &[])["events"].as_array().unwrap().len();
    assert_eq!(count("1999-12-31T23:59:59.5-11:30"), all);
    assert_eq!(count("2999-01-01"), 0);
    for wrong in ["yesterday", "", "12"] {
        let error = sandbox.run(&["worker", "inspect", &worker, "--since", wrong]).error("INVALID_ARGUMENT");
        assert_eq!(error["details"]["since"], wrong);
    }
    sandbox.finish();
}

#[test]
fn the_text_output_counts() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let output = sandbox.command("subagent").args(["worker", "inspect", &worker, "--tail", "1"]).run();
    let expected = format!(
        "workerId: {worker}\nstate: idle\nrecoveryState: restartable\npendingApprovals: 0\nevents: 1\n"
    );
    assert_eq!(output.text(), expected);
    sandbox.finish();
}

#[test]
fn an_agent_may_look_into_its_own_worker_and_no_other() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let other = sandbox.start("demo");
    let look =
        |of: &str| format!("!shell {} worker inspect {of} --tail 1 --json", sandbox.executable("subagent"));
    let own = sandbox.send(&worker, &look(&worker));
    assert!(text(&own["assistantText"]).contains("worker.inspected"), "{own}");
    let foreign = sandbox.send(&worker, &look(&other));
    assert!(text(&foreign["assistantText"]).contains("FORBIDDEN_FROM_WORKER"), "{foreign}");
    let hand =
        format!("!shell {} worker handoff --worker-id {worker} --json", sandbox.executable("subagent"));
    let refused = sandbox.send(&worker, &hand);
    assert!(text(&refused["assistantText"]).contains("FORBIDDEN_FROM_WORKER"), "{refused}");
    sandbox.finish();
}
