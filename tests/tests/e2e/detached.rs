//! `run -d`, and the commands after it: the inbox, `approve` without ids, `ls`.

use std::time::Duration;

use serde_json::{Value, json};
use subagent_tests::harness::{TestSandbox, wait_until};

/// Returns the names of the live workers.
fn alive(sandbox: &TestSandbox) -> Vec<Value> {
    let mut data = sandbox.run(&["ls"]).data_of("workers.overview");
    match data["items"].take() {
        Value::Array(items) => items,
        other => panic!("{other}"),
    }
}

/// Waits until a worker asks a question. Returns its item of `ls`.
fn asking(sandbox: &TestSandbox, name: &str) -> Value {
    wait_until("a question", Duration::from_secs(30), || {
        alive(sandbox).into_iter().find(|item| item["name"] == name && item["requestId"].is_string())
    })
}

#[test]
fn a_detached_run_prints_the_name_of_a_worker_that_goes_on() {
    let sandbox = TestSandbox::new();
    let run = |args: &[&str]| sandbox.command("subagent").args(["run", "-d", "demo"]).args(args).run();
    assert_eq!(run(&["Hello"]).text(), "demo-1\n");
    assert_eq!(run(&["--name", "auth", "Hello"]).text(), "auth\n");
    assert_eq!(run(&["--name", "auth", "Hello"]).status.code(), Some(1));
    let data = sandbox.run(&["run", "-d", "demo", "Hello"]).data_of("run.detached");
    assert_eq!(data["name"], "demo-2");
    let runs = sandbox.run(&["worker", "list", "-l", "subagent/run"]).data_of("worker.listed");
    assert_eq!(runs["count"], 0, "ending abandoned runs must not end these");
    let ended = sandbox.run(&["wait", "--worker-id", "auth", "--all"]).data_of("workers.waited");
    assert_eq!(ended["items"][0]["outcome"], "matched");
    let names = sandbox.command("subagent").args(["ls", "-q"]).run();
    assert_eq!(names.text(), "demo-2\nauth\ndemo-1\n");
    sandbox.run(&["stop", "auth"]).data_of("worker.stopped");
    assert_eq!(alive(&sandbox).len(), 2);
    let all = sandbox.run(&["ls", "-a"]).data_of("workers.overview");
    assert_eq!(all["count"], 3);
    let lines = sandbox.command("subagent").args(["ls", "-a", "-o", "ndjson"]).run();
    assert_eq!(lines.lines().len(), 3);
    sandbox.finish();
}

#[test]
fn what_a_detached_run_asks_is_approved_without_an_id() {
    let sandbox = TestSandbox::new();
    sandbox.run(&["approve"]).error("APPROVAL_NOT_FOUND");
    let ask = "!ask execute rm -rf build";
    sandbox.run(&["run", "-d", "demo", ask]).data_of("run.detached");
    assert_eq!(asking(&sandbox, "demo-1")["asks"], "rm -rf build");
    sandbox.run(&["answer", "--decline"]).error("APPROVAL_NOT_FOUND");
    let decided = sandbox.run(&["approve"]).data_of("approval.decided");
    assert_eq!(decided["optionId"], "allow-once");
    sandbox.run(&["run", "-d", "demo", ask]).data_of("run.detached");
    sandbox.run(&["run", "-d", "demo", ask]).data_of("run.detached");
    let (second, third) = (asking(&sandbox, "demo-2"), asking(&sandbox, "demo-3"));
    let ambiguous = sandbox.run(&["approve"]).error("REQUEST_AMBIGUOUS")["details"].clone();
    assert_eq!(ambiguous["requests"][0]["name"], "demo-2", "{ambiguous}");
    let decided = sandbox.run(&["approve", "demo-3", "--decision", "reject"]).data_of("approval.decided");
    assert_eq!((&decided["requestId"], &decided["optionId"]), (&third["requestId"], &json!("reject-once")));
    let request = second["requestId"].as_str().unwrap();
    let decided = sandbox.run(&["approve", request]).data_of("approval.decided");
    assert_eq!(decided["requestId"], second["requestId"]);
    sandbox.run(&["approve", "demo-2"]).error("APPROVAL_NOT_FOUND");
    let input =
        |args: &[&str]| sandbox.subagent(args).args(["--input", "-"]).stdin(r#"{"note": "fine"}"#).run();
    input(&["approve"]).error("INVALID_INPUT");
    sandbox.run(&["run", "-d", "demo", "--name", "more", ask]).data_of("run.detached");
    asking(&sandbox, "more");
    let decided = input(&["approve", "more"]).data_of("approval.decided");
    assert_eq!(decided["optionId"], "allow-once");
    sandbox.run(&["approve", "demo-9"]).error("WORKER_NOT_FOUND");
    sandbox.finish();
}

#[test]
fn a_form_is_answered_without_an_id() {
    let sandbox = TestSandbox::new();
    let form = r#"!elicit {"mode": "form", "message": "Which port?", "requestedSchema": {"type": "object", "properties": {"port": {"type": "integer"}}}}"#;
    sandbox.run(&["run", "-d", "demo", form]).data_of("run.detached");
    let asked = asking(&sandbox, "demo-1");
    let wrong = sandbox.run(&["approve", "demo-1"]).error("APPROVAL_NOT_FOUND")["details"].clone();
    let command = format!("subagent answer {}", asked["requestId"].as_str().unwrap());
    assert_eq!(wrong["recommendedCommand"], command.as_str());
    let answered = sandbox.run(&["answer", "--accept", "--set", "port=8080"]).data_of("elicitation.answered");
    assert_eq!(answered["requestId"], asked["requestId"]);
    sandbox.finish();
}

#[test]
fn the_prompt_comes_from_an_argument_and_a_pipe() {
    let sandbox = TestSandbox::new();
    let sent = |args: &[&str], stdin: &str| {
        let command = sandbox.command("subagent").args(["run", "-d", "--launcher", "demo"]).args(args);
        let name = command.stdin(stdin).run().text().trim().to_owned();
        let worker = sandbox.run(&["worker", "show", &name]).data()["workerId"].as_str().unwrap().to_owned();
        let message = wait_until("the message", Duration::from_secs(30), || {
            sandbox.events(&worker).into_iter().find(|event| event["type"] == "message.sent")
        });
        message["data"]["text"].as_str().unwrap().to_owned()
    };
    assert_eq!(sent(&["Review this"], "a diff"), "Review this\n\na diff");
    assert_eq!(sent(&["Review this"], ""), "Review this");
    assert_eq!(sent(&["-"], "all of it"), "all of it");
    assert_eq!(sent(&[], "all of it"), "all of it");
    let twice = sandbox.run(&["run", "demo", "x", "--launcher", "demo"]).error("INVALID_ARGUMENT");
    assert!(twice["message"].as_str().unwrap().contains("twice"), "{twice}");
    let unknown = sandbox.run(&["run", "absent", "x"]).error("AGENT_NOT_FOUND");
    assert!(unknown["details"]["launchers"].as_array().unwrap().contains(&json!("demo")), "{unknown}");
    sandbox.finish();
}

#[test]
fn status_says_whether_a_daemon_runs_and_what_is_wrong() {
    let sandbox = TestSandbox::new();
    let before = sandbox.run(&["status"]).data_of("status.shown");
    assert_eq!(before["running"], false);
    sandbox.run(&["run", "-d", "demo", "Hello"]).data_of("run.detached");
    let after = sandbox.run(&["status"]).data_of("status.shown");
    assert_eq!((&after["running"], &after["liveWorkers"]), (&json!(true), &json!(1)));
    assert!(after["findings"].is_array());
    sandbox.finish();
}

#[test]
fn a_mistake_in_the_input_of_a_new_form_is_wrong_usage() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let refused = |args: &[&str]| {
        let output = sandbox.subagent(args).args(["--input", "-"]).stdin(r#"{"misspelled": 1}"#).run();
        assert_eq!(output.document()["error"]["code"], "INVALID_INPUT", "{output}");
        output.status.code()
    };
    let new: [&[&str]; 6] = [
        &["approve", &worker],
        &["answer", &worker],
        &["worker", "set", &worker],
        &["worker", "start", "demo"],
        &["task", "run"],
        &["task", "message"],
    ];
    for args in new {
        assert_eq!(refused(args), Some(2), "{args:?}");
    }
    let contract: [&[&str]; 5] =
        [&["send"], &["approve"], &["wait"], &["worker", "start"], &["worker", "set"]];
    for args in contract {
        assert_eq!(refused(args), Some(1), "{args:?}");
    }
    sandbox.finish();
}
