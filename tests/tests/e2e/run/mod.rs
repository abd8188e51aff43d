//! `subagent run`: the report of each ending, and that no ending leaves anything.

mod closing;
mod endings;
mod interrupted;
mod reports;
mod schema;
mod slow_start;

use serde_json::Value;
use subagent_tests::harness::{Command, Output, TestSandbox};

/// Returns `subagent run` with this text, to be changed or started.
fn running(sandbox: &TestSandbox, text: &str) -> Command {
    sandbox.command("subagent").args(["run", "--text-stdin"]).stdin(text)
}

/// Returns the result, after checking the exit code.
#[track_caller]
fn result(output: &Output, outcome: &str, code: i32) -> Value {
    assert_eq!(output.status.code(), Some(code), "{output}");
    let last = output.stdout.lines().last().unwrap();
    let mut envelope: Value = serde_json::from_str(last).unwrap();
    assert_eq!((&envelope["type"], &envelope["ok"]), (&"run.finished".into(), &true.into()), "{output}");
    let data = envelope["data"].take();
    assert_eq!((&data["outcome"], &data["exitCode"]), (&outcome.into(), &code.into()), "{output}");
    data
}

/// Returns the workers of all runs in any state.
fn workers(sandbox: &TestSandbox) -> Vec<Value> {
    let mut data = sandbox.run(&["worker", "list", "-l", "subagent/run"]).data_of("worker.listed");
    match data["items"].take() {
        Value::Array(items) => items,
        other => panic!("{other}"),
    }
}

/// Checks that only stopped workers are left of this many runs.
#[track_caller]
fn all_stopped(sandbox: &TestSandbox, count: usize) {
    let workers = workers(sandbox);
    assert!(
        workers.len() == count && workers.iter().all(|worker| worker["state"] == "stopped"),
        "{workers:?}"
    );
}

#[test]
fn the_first_of_two_arguments_may_be_a_definition() {
    let sandbox = TestSandbox::new();
    let folder = sandbox.workspace().join(".agents/agents");
    std::fs::create_dir_all(&folder).unwrap();
    let scout = "---\ndescription: Looks\nlauncher: demo\npermission: {execute: deny}\n---\n";
    std::fs::write(folder.join("scout.md"), scout).unwrap();
    let output = sandbox.run(&["run", "scout", "!ask execute make\n!say done"]);
    let data = result(&output, "permission_denied", 12);
    assert_eq!(data["denied"].as_array().map(Vec::len), Some(1), "the rules of the definition hold: {data}");
    sandbox.run(&["run", "nowhere", "Hello"]).error("AGENT_NOT_FOUND");
    all_stopped(&sandbox, 1);
    sandbox.finish();
}
