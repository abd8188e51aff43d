//! The main workflow from outside: start a worker, send it messages, watch and wait,
//! inspect it, stop it.

use std::fs;
use std::time::Duration;

use serde_json::{Value, json};
use subagent_tests::harness::{TestSandbox, wait_until};
use subagent_tests::invariants::PROMPT_CANARY;

#[test]
fn a_worker_does_a_job_from_start_to_stop() {
    let sandbox = TestSandbox::new();
    let controller = sandbox.init();
    let args = ["worker", "start", "--launcher", "demo", "--label", "the first", "--role", "tester"];
    let started = sandbox.run(&args).data_of("worker.started");
    assert_eq!(started["state"], "idle");
    assert_eq!(started["controllerId"], controller["controllerId"]);
    assert_eq!((&started["label"], &started["role"]), (&json!("the first"), &json!("tester")));
    assert_eq!(started["recoveryState"], "restartable");
    assert!(!started["sessionId"].as_str().unwrap().starts_with("sess_"), "the agent's own id: {started}");
    let worker = started["workerId"].as_str().unwrap();

    let waited = sandbox.send(worker, &format!("hello {PROMPT_CANARY}"));
    assert_eq!(waited["matchedEvent"]["type"], "turn.completed");
    assert_eq!(waited["matchedEvent"]["data"]["stopReason"], "end_turn");
    assert_eq!(waited["assistantText"], format!("hello {PROMPT_CANARY}"));
    assert_eq!((&waited["state"], &waited["requestId"]), (&json!("idle"), &Value::Null));
    let until = "turn.completed,turn.failed,turn.canceled,approval.requested";
    assert_eq!((&waited["waitUntil"], &waited["waitTimeoutSeconds"]), (&json!(until), &json!(60.0)));

    let list = sandbox.run(&["worker", "list"]).data_of("worker.listed");
    assert_eq!(list["count"], 1);
    assert_eq!(list["items"][0]["workerId"], worker);
    let shown = sandbox.show(worker);
    assert_eq!((&shown["activeTurnId"], &shown["lastError"]), (&Value::Null, &Value::Null));
    assert_eq!(shown["runtimePid"], sandbox.runtime(worker).pid);

    let types: Vec<String> =
        sandbox.events(worker).iter().map(|event| event["type"].as_str().unwrap().to_owned()).collect();
    let position = |wanted: &str| {
        types.iter().position(|found| found == wanted).unwrap_or_else(|| panic!("{wanted} in {types:?}"))
    };
    let order = ["worker.started", "turn.started", "message.sent", "progress.message", "turn.completed"];
    assert!(order.windows(2).all(|pair| position(pair[0]) < position(pair[1])), "{types:?}");

    let runtime = sandbox.runtime(worker);
    let guard = sandbox.guard(&runtime);
    let agent = sandbox.agent(&guard);
    let stopped = sandbox.run(&["worker", "stop", worker]).data_of("worker.stopped");
    assert_eq!(stopped["state"], "stopped");
    // `stopped` guarantees that no process is left: it holds at once.
    for process in [&agent, &guard] {
        assert!(!process.lives(), "{process:?} outlived the stop");
    }
    wait_until("the runtime to be gone", Duration::from_secs(5), || (!runtime.lives()).then_some(()));
    let again = sandbox.run(&["worker", "stop", worker]).data_of("worker.stopped");
    assert_eq!(again["stoppedAt"], stopped["stoppedAt"]);
    assert_eq!(sandbox.show(worker)["runtimePid"], Value::Null);
    let refused = sandbox.sending(worker, "once more").run().error("WORKER_STOPPED");
    assert_eq!(refused["retryable"], false);
    sandbox.finish();
}

#[test]
fn the_text_of_a_turn_is_joined_and_its_last_piece_is_reported() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let waited = sandbox.send(&worker, "!think hm\n!chunks 3 ab\n!tool read a file\n!say c");
    assert_eq!(
        (&waited["assistantText"], &waited["lastAssistantChunk"]),
        (&json!("ababab\n\nc"), &json!("c"))
    );
    assert_eq!(waited["lastAssistantMessage"], "abababc", "unchanged from the agent");
    let waited = sandbox.send(&worker, "!think only");
    assert_eq!((&waited["assistantText"], &waited["lastAssistantMessage"]), (&Value::Null, &Value::Null));
    sandbox.finish();
}

#[test]
fn a_follower_sees_each_line_at_once() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let gate = sandbox.gate("turn");
    let follower = sandbox.follow(&worker);
    let accepted = sandbox.send_no_wait(&worker, &format!("before\n{}\nafter", gate.directive()));
    assert_eq!(accepted["state"], "running");
    let says = |text: &'static str| {
        move |line: &str| {
            let event: Value = serde_json::from_str(line).unwrap();
            (event["data"]["text"] == text && event["type"] == "progress.message").then_some(())
        }
    };
    // The turn waits at the gate, so the line arrived on its own.
    follower.wait_line("the text before the gate", says("before"));
    assert_eq!(sandbox.show(&worker)["state"], "running");
    let so_far = follower.stdout();
    assert!(!so_far.lines().any(|line| says("after")(line).is_some()), "{so_far}");
    gate.open();
    follower.wait_line("the text after the gate", says("after"));
    follower.wait_line("the end of the turn", |line| line.contains("\"turn.completed\"").then_some(()));
    let _ = follower.kill();
    sandbox.finish();
}

#[test]
fn a_follower_ends_with_its_window_and_goes_on_from_a_cursor() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let waited = sandbox.send(&worker, "one");
    let cursor = waited["acceptedEventId"].as_str().unwrap();
    let args =
        ["watch", "--worker-id", &worker, "--follow", "--from-event-id", cursor, "--timeout-seconds", "0.5"];
    let output = sandbox.command("subagent").args(args).run();
    let _ = output.text();
    let types: Vec<Value> = output.lines().into_iter().map(|event| event["type"].clone()).collect();
    assert_eq!(types, ["progress.message", "turn.completed"]);
    assert!(output.elapsed >= Duration::from_millis(500), "{output}");
    let listed = sandbox.run(&["watch", "--worker-id", &worker, "--raw"]).data_of("events.watched");
    assert_eq!(listed["items"].as_array().unwrap().len(), listed["count"]);
    assert!(listed["items"].as_array().unwrap().iter().all(|event| event["raw"].is_object()));
    let unknown = ["watch", "--worker-id", &worker, "--from-event-id", "ev_ffffffffffff"];
    sandbox.run(&unknown).error("EVENT_NOT_FOUND");
    sandbox.finish();
}

#[test]
fn a_closed_pipe_ends_a_watch_quietly() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let _ = sandbox.send(&worker, "!chunks 300 text");
    let script = "\"$1\" watch --worker-id \"$2\" | head -n 1";
    let args = ["-c", script, "sh", &sandbox.executable("subagent"), &worker];
    let output = sandbox.command("/bin/bash").args(["-o", "pipefail"]).args(args).run();
    assert_eq!((output.status.code(), output.stderr.as_str()), (Some(0), ""), "{output}");
    sandbox.finish();
}

#[test]
fn waits_match_and_time_out() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let gate = sandbox.gate("turn");
    let accepted = sandbox.send_no_wait(&worker, &format!("!plan a|b\n{}\n!say end", gate.directive()));
    let plan = sandbox.wait_after(&worker, &accepted["acceptedEventId"], "progress.update:plan");
    assert_eq!(plan["turnId"], accepted["turnId"]);
    let wait = ["wait", "--worker-id", &worker, "--until", "turn.completed"];
    let error = sandbox.subagent(&wait).args(["--timeout-seconds", "0.3"]).run().error("WAIT_TIMEOUT");
    assert_eq!(error["retryable"], true);
    let details = &error["details"];
    assert_eq!((&details["workerId"], &details["workerState"]), (&json!(worker), &json!("running")));
    assert!(details["latestEvent"]["eventId"].is_string() && details["diagnosis"].is_string(), "{error}");
    let stuck = ["--timeout-seconds", "30", "--no-progress-timeout-seconds", "0.3"];
    sandbox.subagent(&wait).args(stuck).run().error("WAIT_NO_PROGRESS");
    let busy = sandbox.sending(&worker, "too early").run().error("WORKER_BUSY");
    assert_eq!((&busy["details"]["state"], &busy["retryable"]), (&json!("running"), &json!(false)));
    let waiting = sandbox.subagent(&wait).spawn();
    gate.open();
    assert_eq!(sandbox.turn_end(&accepted)["type"], "turn.completed");
    // It may have begun to wait only after the end: then it reports that
    // instead of waiting forever.
    let _ = waiting.kill();
    let history = ["wait", "--worker-id", &worker, "--include-history", "--until", "turn.started"];
    assert_eq!(sandbox.run(&history).data_of("event.matched")["turnId"], accepted["turnId"]);
    sandbox.run(&["wait", "--worker-id", &worker, "--until", "turn.over"]).error("INVALID_ARGUMENT");
    sandbox.run(&["wait", "--worker-id", "w_0000000000"]).error("WORKER_NOT_FOUND");
    sandbox.finish();
}

#[test]
fn a_send_that_times_out_leaves_the_turn_running() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let gate = sandbox.gate("turn");
    let sending = sandbox.sending(&worker, &gate.directive()).args(["--wait-timeout-seconds", "0.3"]);
    let error = sending.run().error("WAIT_TIMEOUT");
    let turn = error["details"]["turnId"].clone();
    assert_eq!(sandbox.show(&worker)["activeTurnId"], turn);
    gate.open();
    let cursor = &error["details"]["acceptedEventId"];
    assert_eq!(sandbox.wait_after(&worker, cursor, "turn_end")["turnId"], turn);
    // Invalid wait conditions are refused before the turn begins.
    sandbox.sending(&worker, "x").args(["--wait-until", "nonsense"]).run().error("INVALID_ARGUMENT");
    assert_eq!(sandbox.show(&worker)["state"], "idle");
    sandbox.finish();
}

#[test]
fn structured_input_does_what_flags_do() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let blocks = json!([{"type": "resource_link", "name": "n", "uri": "file:///tmp/n"}]);
    let input =
        json!({"workerId": worker, "text": "!say \"quoted\" $(not run) `nor this`", "blocks": blocks});
    fs::write(sandbox.file("input.json"), input.to_string()).unwrap();
    let waited = sandbox.run(&["send", "--input", &sandbox.file_name("input.json")]).data_of("turn.waited");
    let text = waited["assistantText"].as_str().unwrap();
    assert!(text.starts_with("\"quoted\" $(not run) `nor this`"), "{waited}");
    assert!(text.contains("file:///tmp/n"), "{waited}");
    let twice = sandbox.subagent(&["send", "--input", "-", "--worker-id", &worker]).stdin(input.to_string());
    assert_eq!(twice.run().error("INVALID_INPUT")["details"]["field"], "workerId");
    let risky = sandbox.run(&["send", "--worker-id", &worker, "--text", "a | b"]).data_of("turn.waited");
    assert_eq!(risky["warnings"][0]["riskCodes"], json!(["pipeline"]));
    sandbox.finish();
}

#[test]
fn workers_do_not_get_in_each_others_way() {
    let (sandbox, first) = TestSandbox::with_worker();
    let second = sandbox.start("demo");
    let gate = sandbox.gate("first");
    let accepted = sandbox.send_no_wait(&first, &gate.directive());
    assert_eq!(sandbox.send(&second, "quick")["assistantText"], "quick");
    assert_eq!(sandbox.show(&first)["state"], "running");
    gate.open();
    assert_eq!(sandbox.turn_end(&accepted)["type"], "turn.completed");
    let list = sandbox.run(&["worker", "list"]).data_of("worker.listed");
    assert_eq!(list["count"], 2);
    sandbox.check();
    sandbox.finish();
}

#[test]
fn what_the_agent_says_on_stderr_can_be_read() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let _ = sandbox.send(&worker, "!stderr a complaint");
    // Another pipe than the one that reported the end of the turn.
    wait_until("the agent's stderr in the log", Duration::from_secs(5), || {
        let logs = sandbox.run(&["worker", "logs", &worker]).data_of("worker.logs");
        logs["text"].as_str().unwrap().contains("a complaint").then_some(())
    });
    sandbox.finish();
}

#[test]
fn an_agents_error_fails_the_turn_and_the_worker_goes_on() {
    let (sandbox, worker) = TestSandbox::with_worker();
    sandbox.send_fails(&worker, "!error -32603 broken inside", "BACKEND_RPC_ERROR");
    assert!(sandbox.show(&worker)["lastError"].as_str().unwrap().starts_with("BACKEND_RPC_ERROR"));
    let waited = sandbox.send(&worker, "!stop refusal");
    assert_eq!(waited["matchedEvent"]["data"]["stopReason"], "refusal");
    assert_eq!(sandbox.send(&worker, "well")["assistantText"], "well");
    assert_eq!(sandbox.show(&worker)["lastError"], Value::Null);
    sandbox.finish();
}

#[test]
fn strange_updates_are_kept_and_end_nothing() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let waited = sandbox.send(&worker, "!noise\n!unknown\n!say still here\n!late");
    assert_eq!(waited["assistantText"], "unknown request: -32601still here");
    let events = sandbox.events(&worker);
    let count = |key: &str, value: &str| events.iter().filter(|event| event["data"][key] == value).count();
    assert_eq!(count("method", "_demo/unknown_notification"), 1, "{events:#?}");
    assert_eq!(count("kind", "demo_unknown_update"), 1, "{events:#?}");
    assert!(
        count("kind", "noise") >= 3,
        "text, invalid UTF-8, an array and an object are noise: {events:#?}"
    );
    assert_eq!(sandbox.send(&worker, "next")["assistantText"], "next");
    sandbox.finish();
}

#[test]
fn an_agent_of_old_works_with_all_its_manners() {
    let mut sandbox = TestSandbox::new();
    let old = sandbox.demo_agent(&["--no-capabilities"]);
    sandbox.launcher("old", old);
    sandbox.init();
    let worker = sandbox.start("old");
    assert_eq!(sandbox.show(&worker)["sessionId"], "session-1");
    assert_eq!(sandbox.send(&worker, "!chunks 2 x")["assistantText"], "xx");
    let gate = sandbox.gate("never");
    let accepted = sandbox.send_no_wait(&worker, &format!("!say begun\n{}", gate.directive()));
    let _ = sandbox.wait_after(&worker, &accepted["acceptedEventId"], "progress.message");
    sandbox.run(&["cancel", "--worker-id", &worker]).data_of("turn.canceled");
    sandbox.kill(&sandbox.runtime(&worker));
    // It answers null to `session/load` and accepts every id.
    assert_eq!(sandbox.send(&worker, "again")["assistantText"], "again");
    assert_eq!(sandbox.show(&worker)["sessionId"], "session-1");
    sandbox.finish();
}

#[test]
fn nothing_that_an_agent_leaves_behind_survives_the_stop() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let waited = sandbox.send(&worker, "!spawn all");
    assert_eq!(waited["matchedEvent"]["type"], "turn.completed", "{waited}");
    let strays = fs::read_to_string(sandbox.file("pids")).unwrap().lines().count();
    assert!(strays >= 5, "{strays} processes were left behind");
    sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    // `pids` is removed with the sandbox, which would end them: they must be gone before.
    let left: Vec<_> = sandbox.processes().into_iter().filter(|process| process.name == "subagent").collect();
    assert!(left.is_empty(), "{left:?}");
    sandbox.finish();
}

#[test]
fn a_wait_without_a_limit_outlives_the_daemon_and_not_the_worker() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let cursor = sandbox.events(&worker).pop().unwrap()["eventId"].as_str().unwrap().to_owned();
    let wait = ["wait", "--worker-id", &worker, "--from-event-id", &cursor, "--timeout-seconds", "0"];
    let waiting = sandbox.subagent(&[&wait[..], &["--until", "turn.completed"]].concat()).spawn();
    let stop = sandbox.command("subagentd").args(["stop"]).run();
    assert!(stop.status.success(), "{stop}");
    assert_eq!(sandbox.send(&worker, "on")["assistantText"], "on");
    assert_eq!(waiting.output().data_of("event.matched")["type"], "turn.completed");
    let waiting = sandbox.subagent(&[&wait[..], &["--until", "turn.failed"]].concat()).spawn();
    sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    waiting.output().error("WORKER_STOPPED");
    sandbox.finish();
}
