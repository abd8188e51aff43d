//! Results of turns: the text, the result, the exit codes of `send`, `wait` and `result`,
//! and their positional forms.

use serde_json::{Value, json};
use subagent_tests::harness::{Output, TestSandbox, assert_shape};

const PARAGRAPHS: &str = "Hello\n!tool read a file\nBye";

/// Runs a command without `--json`.
fn typed(sandbox: &TestSandbox, args: &[&str]) -> Output {
    sandbox.command("subagent").args(args).run()
}

#[track_caller]
fn exits(output: &Output, code: i32, stdout: &str) {
    assert_eq!((output.status.code(), output.stdout.as_str()), (Some(code), stdout), "{output}");
}

#[test]
fn a_tool_call_parts_the_text_of_a_message_everywhere() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let sent = sandbox.send(&worker, PARAGRAPHS);
    assert_eq!(sent["assistantText"], "Hello\n\nBye");
    assert_eq!(sent["lastAssistantMessage"], "HelloBye", "as in the contract");
    assert_eq!(sent["lastAssistantChunk"], "Bye");
    let turn = sent["turnId"].as_str().unwrap();
    let shown = sandbox.run(&["turn", "show", turn]).data_of("turn.shown");
    assert_eq!(shown["result"]["message"], "Bye");
    assert_eq!(sandbox.send(&worker, "one\n!tool read a\ntwo\n!tool read b")["assistantText"], "one\n\ntwo");
    exits(&typed(&sandbox, &["result", &worker]), 0, "one\n\ntwo\n");
    exits(&typed(&sandbox, &["result", turn]), 0, "Bye\n");
    sandbox.finish();
}

#[test]
fn a_result_has_the_end_of_its_turn() {
    let (sandbox, worker) = TestSandbox::with_worker();
    sandbox.run(&["result", &worker]).error("TURN_NOT_FOUND");
    let sent = sandbox.send(&worker, PARAGRAPHS);
    let data = sandbox.run(&["result", &worker]).data_of("turn.result");
    assert_shape(
        &data,
        &json!({
            "workerId": format!("={worker}"), "turnId": "turn", "outcome": "=completed", "exitCode": 0,
            "message": "=Bye", "stopReason": "=end_turn", "usage": null, "error": null,
            "denied": [], "deniedCount": 0, "turnedAway": 0,
        }),
    );
    assert_eq!(data["turnId"], sent["turnId"]);
    for (script, outcome, code) in [
        ("so far\n!stop refusal", "refusal", 16),
        ("so far\n!stop max_tokens", "max_tokens", 17),
        ("so far\n!stop max_turn_requests", "max_turn_requests", 18),
    ] {
        let _ = sandbox.send(&worker, script);
        let output = sandbox.run(&["result", &worker]);
        assert_eq!(output.status.code(), Some(code), "{output}");
        assert_eq!(output.document()["data"]["outcome"], outcome);
        exits(&typed(&sandbox, &["result", &worker]), code, "so far\n");
    }
    sandbox.send_fails(&worker, "!error -32603 no luck", "BACKEND_RPC_ERROR");
    let failed = sandbox.run(&["result", &worker]);
    assert_eq!(failed.status.code(), Some(10), "{failed}");
    assert_eq!(failed.document()["data"]["error"]["code"], "BACKEND_RPC_ERROR");
    sandbox.finish();
}

#[test]
fn an_open_turn_has_no_result_and_a_wait_ends_with_it() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let gate = sandbox.gate("turn");
    let detached = typed(&sandbox, &["send", &worker, &format!("{}\ndone", gate.directive()), "-d"]);
    assert!(detached.status.success() && detached.stdout.contains("state: running"), "{detached}");
    let error = sandbox.run(&["result", &worker]).error("TURN_OPEN");
    assert_eq!(error["details"]["recommendedCommand"], format!("subagent wait {worker}"));
    let late = sandbox.run(&["wait", &worker, "--timeout", "1s"]);
    assert_eq!(late.status.code(), Some(13), "{late}");
    assert_eq!(late.document()["error"]["code"], "WAIT_TIMEOUT");
    gate.open();
    exits(&typed(&sandbox, &["wait", &worker]), 0, "demo-1\tcompleted\tdone\n");
    sandbox.finish();
}

#[test]
fn a_wait_for_what_has_finished_ends_at_once_with_its_outcome() {
    let (sandbox, one) = TestSandbox::with_worker();
    let two = sandbox.start("demo");
    exits(&typed(&sandbox, &["wait", &one]), 0, "demo-1\tidle\n");
    let _ = sandbox.send(&one, "fine");
    let _ = sandbox.send(&two, "half\n!stop max_tokens");
    let output = sandbox.run(&["wait", &one, &two]);
    assert_eq!(output.status.code(), Some(17), "the first code that is not 0: {output}");
    let data = &output.document()["data"];
    assert_eq!((&data["done"], &data["exitCode"]), (&json!(2), &json!(17)));
    let results: Vec<&Value> = data["items"].as_array().unwrap().iter().map(|item| &item["result"]).collect();
    assert_eq!((&results[0]["message"], &results[1]["outcome"]), (&json!("fine"), &json!("max_tokens")));
    sandbox.run(&["worker", "stop", &one]).data_of("worker.stopped");
    exits(&typed(&sandbox, &["wait", &one]), 0, "demo-1\tcompleted\tfine\n");
    sandbox.finish();
}

#[test]
fn an_open_question_ends_a_wait() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let busy = sandbox.start("demo");
    let gate = sandbox.gate("busy");
    let _ = sandbox.send_no_wait(&busy, &gate.directive());
    let sent = typed(&sandbox, &["send", &worker, "!ask execute make"]);
    assert_eq!((sent.status.code(), sent.stdout.as_str()), (Some(15), ""), "{sent}");
    assert!(sent.stderr.contains(&format!("answer with: subagent approve {worker}")), "{sent}");
    let waited = typed(&sandbox, &["wait", &busy, &worker]);
    assert_eq!(waited.status.code(), Some(15), "the other worker must still be busy: {waited}");
    assert!(waited.stdout.contains(&format!("{busy}\twaiting\n")), "{waited}");
    let request =
        sandbox.run(&["worker", "inspect", &worker]).data()["pendingApprovals"][0]["requestId"].clone();
    sandbox.approve(&worker, &request, "deny").data_of("approval.decided");
    let denied = typed(&sandbox, &["wait", &worker]);
    assert_eq!(denied.status.code(), Some(12), "{denied}");
    gate.open();
    assert!(typed(&sandbox, &["wait", &busy]).status.success());
    sandbox.finish();
}

#[test]
fn a_text_comes_from_an_argument_and_from_stdin() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let text = |args: &[&str], stdin: &str| {
        let output = sandbox.command("subagent").args(["send", &worker]).args(args).stdin(stdin).run();
        let sent = sandbox.events(&worker).into_iter().rfind(|event| event["type"] == "message.sent");
        (output.status.code(), sent.unwrap()["data"]["text"].as_str().unwrap().to_owned())
    };
    assert_eq!(text(&["one"], ""), (Some(0), "one".to_owned()));
    assert_eq!(text(&["-"], "two"), (Some(0), "two".to_owned()));
    assert_eq!(text(&[], "three"), (Some(0), "three".to_owned()));
    assert_eq!(text(&["Review"], "a diff"), (Some(0), "Review\n\na diff".to_owned()));
    sandbox.run(&["send", &worker]).error("INVALID_INPUT");
    exits(&typed(&sandbox, &["send", &worker, PARAGRAPHS]), 0, "Bye\n");
    let failed = typed(&sandbox, &["send", &worker, "so far\n!error -32603 no luck"]);
    exits(&failed, 10, "so far\n");
    assert!(failed.stderr.contains("send: the turn failed: BACKEND_RPC_ERROR"), "{failed}");
    sandbox.finish();
}

#[test]
fn a_terminal_shows_the_final_message_of_a_send_once() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let send = sandbox.command("subagent").args(["send", &worker, "before\n!tool read a\nThe answer"]);
    let screen = send.on_screen();
    assert!(screen.status.success(), "{}", screen.text());
    assert_eq!(screen.text().matches("The answer").count(), 1, "{}", screen.text());
    sandbox.finish();
}

#[test]
fn contract_forms_exit_with_the_outcome_only_on_demand() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let send = |flags: &[&str]| sandbox.sending(&worker, "!stop refusal").args(flags).run();
    assert_eq!(send(&[]).status.code(), Some(0));
    let output = send(&["--exit-status"]);
    assert_eq!((output.status.code(), &output.document()["type"]), (Some(16), &json!("turn.waited")));
    let wait = ["wait", "--worker-id", &worker, "--include-history", "--until", "turn.completed"];
    assert_eq!(sandbox.run(&wait).status.code(), Some(0));
    assert_eq!(sandbox.run(&[&wait[..], &["--exit-status"]].concat()).status.code(), Some(16));
    let failed = sandbox.sending(&worker, "!error -32603 no luck").args(["--exit-status"]).run();
    assert_eq!(failed.status.code(), Some(10), "{failed}");
    assert_eq!(failed.document()["error"]["code"], "BACKEND_RPC_ERROR");
    sandbox.finish();
}

#[test]
fn a_followed_worker_gives_the_exit_code_of_its_last_turn() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let typed = |args: &[&str]| sandbox.command("subagent").args(args).run();
    let watch = |args: &[&str]| typed(&[&["watch"], args].concat()).status.code();
    let follow = ["watch", &worker, "-f", "--timeout", "1s"];
    assert_eq!(watch(&[&worker, "--exit-status"]), Some(0));
    assert_eq!(typed(&["send", &worker, "!error -32603 no luck"]).status.code(), Some(10));
    // The story alone is no failure, and the contract's form is as before.
    assert_eq!(watch(&[&worker]), Some(0));
    assert_eq!(watch(&["--worker-id", &worker, "--follow"]), Some(0));
    assert_eq!(watch(&[&worker, "--exit-status", "--tail", "1"]), Some(10));
    assert_eq!(watch(&["--worker-id", &worker, "--exit-status"]), Some(10));
    let document = sandbox.run(&follow);
    assert_eq!(document.status.code(), Some(10), "{document}");
    assert_eq!(document.document()["data"]["exitCode"], 10, "{document}");
    assert_eq!(typed(&["send", &worker, "!ask execute make"]).status.code(), Some(15));
    assert_eq!(typed(&follow).status.code(), Some(15));
    assert_eq!(typed(&["approve", &worker]).status.code(), Some(0));
    assert_eq!(typed(&["wait", &worker]).status.code(), Some(0));
    assert_eq!(typed(&["send", &worker, "-d", "!sleep 600000"]).status.code(), Some(0));
    assert_eq!(typed(&follow).status.code(), Some(13));
    let follows = sandbox.command("subagent").args(["watch", &worker, "-f", "--tail", "1"]).spawn();
    sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    let ended = typed(&["wait", &worker]).status.code();
    assert_eq!((follows.output().status.code(), ended), (Some(11), Some(11)));
    sandbox.finish();
}

#[test]
fn a_watch_shows_the_newest_events_of_several_workers() {
    let (sandbox, one) = TestSandbox::with_worker();
    let (two, other) = (sandbox.start("demo"), sandbox.start("demo"));
    for worker in [&one, &two, &other] {
        let _ = sandbox.send(worker, "hello");
    }
    let lines = typed(&sandbox, &["watch", &one, &two]).lines();
    assert!(lines.iter().all(|event| event["workerId"] != other.as_str()), "{lines:?}");
    assert!([&one, &two].iter().all(|worker| lines.iter().any(|event| event["workerId"] == worker.as_str())));
    let tail = typed(&sandbox, &["watch", &one, &two, "--tail", "3", "--since", "1h"]).lines();
    assert_eq!(tail, lines[lines.len() - 3..]);
    let alone = typed(&sandbox, &["watch", &one]).lines();
    assert_eq!(alone, sandbox.events(&one));
    let screen = sandbox.command("subagent").args(["watch"]).on_screen();
    assert!(screen.text().contains(&format!("== demo-1  {one}")), "{}", screen.text());
    assert!(screen.status.success() && screen.text().contains(&*other), "all workers: {}", screen.text());
    let follows = sandbox.command("subagent").args(["watch", &one, "-f", "--tail", "1"]).spawn();
    sandbox.run(&["worker", "stop", &one]).data_of("worker.stopped");
    let followed = follows.output();
    assert!(followed.stdout.contains("worker.stopped"), "it ends with its worker: {followed}");
    sandbox.finish();
}
