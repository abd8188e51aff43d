//! Each ending has its exit code, and each output format its own form.

use std::time::Duration;

use serde_json::{Value, json};
use subagent_tests::harness::{TestSandbox, assert_shape, wait_until};

use super::{all_stopped, result, running, workers};

#[test]
fn a_run_prints_the_final_message_and_leaves_a_stopped_worker() {
    let sandbox = TestSandbox::new();
    let output = running(&sandbox, "first\n!tool read a file\nThe answer\n!say  is 42.").run();
    assert_eq!(output.text(), "The answer is 42.\n");
    for progress in ["first", "a file", "completed"] {
        assert!(output.stderr.contains(progress), "{output}");
    }
    all_stopped(&sandbox, 1);
    // There was no controller: the new one has no owner, and no hint to it remains.
    let status = sandbox.run(&["controller", "status"]).data_of("controller.status");
    assert_eq!((&status["state"], &status["activeOwner"]), (&json!("dormant"), &Value::Null));
    assert!(!sandbox.file("ws/.subagent/controller.json").exists());
    sandbox.finish();
}

#[test]
fn progress_in_a_pipe_is_not_wrapped() {
    let sandbox = TestSandbox::new();
    let long = "word ".repeat(40) + "end";
    let output = running(&sandbox, &format!("{long}\n!error -32000 {long}")).run();
    assert_eq!(output.status.code(), Some(10), "{output}");
    let lines: Vec<&str> = output.stderr.lines().collect();
    assert!(lines.contains(&&*long), "the message: {output}");
    let is_error = |line: &&str| line.contains("BACKEND_RPC_ERROR") && line.contains(&long);
    assert!(lines.iter().any(is_error), "the error: {output}");
    all_stopped(&sandbox, 1);
    sandbox.finish();
}

#[test]
fn the_result_is_one_document_or_the_last_line_after_the_events() {
    let sandbox = TestSandbox::new();
    sandbox.init();
    let output =
        running(&sandbox, "hello").args(["--output", "json", "--label", "mine", "--tag", "job=x"]).run();
    let _ = output.document();
    let data = result(&output, "completed", 0);
    assert_shape(
        &data,
        &json!({
            "outcome": "str", "exitCode": 0, "workerId": "w", "controllerId": "ctl", "launcher": "str",
            "sessionId": "str", "turnId": "turn", "message": "str", "stopReason": "str", "usage": null, "error": null,
            "denied": [], "deniedCount": 0, "turnedAway": 0, "durationSeconds": "float",
        }),
    );
    assert_eq!((&data["message"], &data["stopReason"]), (&json!("hello"), &json!("end_turn")));
    assert_eq!(output.stderr, "");
    let found = &workers(&sandbox)[0];
    assert_eq!((&found["label"], &found["tags"]["job"]), (&json!("mine"), &json!("x")));

    let output = running(&sandbox, "hello").args(["--output", "ndjson"]).run();
    let again = result(&output, "completed", 0);
    let lines = output.lines();
    let types: Vec<&str> = lines.iter().map(|line| line["type"].as_str().unwrap()).collect();
    for wanted in ["worker.started", "turn.started", "progress.message", "turn.completed", "worker.stopped"] {
        assert!(types.contains(&wanted), "{types:?}");
    }
    assert!(lines[..lines.len() - 1].iter().all(|event| event["workerId"] == again["workerId"]));
    all_stopped(&sandbox, 2);
    sandbox.finish();
}

#[test]
fn a_turn_that_fails_or_takes_too_long_is_reported() {
    let sandbox = TestSandbox::new();
    let output = running(&sandbox, "so far\n!error -32000 no luck").run();
    assert_eq!((output.status.code(), output.stdout.as_str()), (Some(10), "so far\n"), "{output}");
    assert!(output.stderr.contains("run: the turn failed: BACKEND_RPC_ERROR"), "{output}");
    let data = result(&running(&sandbox, "!crash").args(["--json"]).run(), "failed", 10);
    assert_eq!(data["error"]["code"], "BACKEND_UNAVAILABLE", "{data}");

    let output = running(&sandbox, "begun\n!sleep 60000").args(["--json", "--timeout", "1s"]).run();
    let data = result(&output, "timeout", 13);
    assert_eq!((&data["message"], &data["error"]), (&json!("begun"), &Value::Null));
    let events = sandbox.events(data["workerId"].as_str().unwrap());
    let canceled = events.iter().find(|event| event["type"] == "turn.canceled").unwrap();
    assert_eq!(canceled["data"]["reason"], "the run timed out");
    all_stopped(&sandbox, 3);
    sandbox.finish();
}

#[test]
fn a_cancel_or_a_stop_by_another_caller_is_reported() {
    let sandbox = TestSandbox::new();
    let run = running(&sandbox, "!sleep 60000").args(["--json"]).spawn();
    let begun = || workers(&sandbox).first().filter(|found| found["state"] == "running").cloned();
    let worker = wait_until("the turn", Duration::from_secs(20), begun);
    let worker = worker["workerId"].as_str().unwrap();
    sandbox.run(&["cancel", "--worker-id", worker]).data_of("turn.canceled");
    result(&run.output(), "canceled", 11);
    all_stopped(&sandbox, 1);
    sandbox.finish();
}

#[test]
fn questions_of_the_agent_are_refused_without_a_person_to_ask() {
    let sandbox = TestSandbox::new();
    let output = running(&sandbox, "!ask execute rm -rf /\nanother way").run();
    assert_eq!(output.status.code(), Some(12), "{output}");
    assert!(output.stdout.ends_with("another way\n"), "{output}");
    assert!(
        output.stderr.contains("run: permission denied: ") && !output.stderr.contains("subagent approve")
    );
    let data = result(&running(&sandbox, "!ask2 execute it").args(["--json"]).run(), "permission_denied", 12);
    assert_eq!((&data["deniedCount"], data["denied"].as_array().unwrap().len()), (&json!(2), 2));
    assert_eq!(data["denied"][0]["note"], "this run has no user to ask");
    assert_eq!(data["denied"][0]["toolKind"], "execute");

    let form = r#"!elicit {"mode": "form", "message": "m", "requestedSchema": {"type": "object"}}"#;
    let data = result(&running(&sandbox, form).args(["--json"]).run(), "turned_away", 19);
    assert_eq!(data["turnedAway"], 1);
    assert!(data["message"].as_str().unwrap().contains(r#""action":"cancel""#), "{data}");
    all_stopped(&sandbox, 3);
    sandbox.finish();
}

#[test]
fn a_stop_reason_that_leaves_something_undone_is_no_success() {
    let sandbox = TestSandbox::new();
    for (reason, code) in [("refusal", 16), ("max_tokens", 17), ("max_turn_requests", 18)] {
        let output = running(&sandbox, &format!("so far\n!stop {reason}")).args(["--json"]).run();
        assert_eq!(result(&output, reason, code)["stopReason"], reason);
    }
    let output = running(&sandbox, "!stop refusal").run();
    assert!(output.stderr.contains("run: the agent refused"), "{output}");
    all_stopped(&sandbox, 4);
    sandbox.finish();
}

#[test]
fn a_terminal_shows_the_message_once() {
    let sandbox = TestSandbox::new();
    let screen = sandbox
        .command("subagent")
        .args(["run", "--text", "before\n!tool read a file\nThe answer"])
        .on_screen();
    assert!(screen.status.success(), "{}", screen.text());
    for text in ["before", "The answer"] {
        // The prompt is shown with a mark.
        let shown = screen.lines().iter().filter(|line| line.trim_end() == text).count();
        assert_eq!(shown, 1, "{}", screen.text());
    }
    sandbox.finish();
}

#[test]
fn rules_say_what_the_agent_of_a_run_may_do() {
    let sandbox = TestSandbox::new();
    let rules = ["--json", "--allow", "execute(make *)", "--deny", "execute(make install*)"];
    let run = |text: &str| running(&sandbox, text).args(rules).run();
    let data = result(&run("!ask execute make all"), "completed", 0);
    assert_eq!((&data["message"], &data["deniedCount"]), (&json!("permission: allow-once"), &json!(0)));

    let data = result(&run("!ask execute make install"), "permission_denied", 12);
    let denied = &data["denied"][0];
    assert_eq!((&denied["note"], &denied["optionId"]), (&Value::Null, &json!("reject-once")));
    assert_eq!(denied["policy"]["rule"], "execute(make install*)");

    let data = result(&run("!tool execute make install\n!sleep 60000"), "permission_denied", 12);
    assert_shape(
        &data["denied"],
        &json!([{
            "requestId": null, "message": "=done without asking: make install", "optionId": null, "note": null,
            "toolKind": "=execute",
            "policy": {"action": "=deny", "kind": "=execute", "subject": "=make install",
                       "rule": "=execute(make install*)", "layer": "=owner"},
        }]),
    );
    let output = running(&sandbox, "!tool execute make install\n!sleep 60000").args(&rules[1..]).run();
    let reported =
        "run: permission denied: done without asking: make install (by the rule `execute(make install*)`)";
    assert!(output.status.code() == Some(12) && output.stderr.contains(reported), "{output}");
    all_stopped(&sandbox, 4);
    sandbox.finish();
}

#[test]
fn what_is_wrong_before_the_start_starts_nothing() {
    let sandbox = TestSandbox::new();
    let wrong = |args: &[&str], code: &str| {
        let output = sandbox.command("subagent").args(["run", "--json"]).args(args).run();
        output.error(code)
    };
    wrong(&[], "INVALID_INPUT");
    wrong(&["--text", "a", "--text-file", "b"], "INVALID_INPUT");
    wrong(&["--text", "a", "--result-schema", "no-such-file"], "INVALID_INPUT");
    let error = wrong(&["--text", "a", "--tag", "=b"], "INVALID_ARGUMENT");
    assert_eq!(error["details"]["position"], 0);
    for args in [["--timeout", "0s"], ["--timeout", "soon"], ["--output", "xml"]] {
        let output = sandbox.command("subagent").args(["run", "--text", "a"]).args(args).run();
        assert_eq!(output.status.code(), Some(2), "{output}");
    }
    assert!(!sandbox.state_dir().exists());
    wrong(&["--text", "a", "--launcher", "none"], "LAUNCHER_NOT_FOUND");
    assert_eq!(workers(&sandbox), Vec::<Value>::new());
    sandbox.finish();
}

#[test]
fn an_agent_that_cannot_be_started_is_an_error_and_leaves_nothing() {
    let mut sandbox = TestSandbox::new();
    let broken = sandbox.demo_agent(&["--exit", "3"]);
    sandbox.launcher("broken", broken);
    let output = running(&sandbox, "hello").args(["--launcher", "broken", "--json"]).run();
    output.error("BACKEND_UNAVAILABLE");
    all_stopped(&sandbox, 1);
    sandbox.finish();
}
