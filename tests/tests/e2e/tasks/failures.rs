//! The error of a task with a waiting caller: on stderr, with the next action and command; stdout
//! has only the result.

use serde_json::{Value, json};
use subagent_tests::harness::{Command, On, TestSandbox};

fn given(sandbox: &TestSandbox, args: &[&str], prompt: &str) -> Command {
    sandbox.command("subagent").args(["task", "run", "--launcher", "demo", "--text", prompt]).args(args)
}

#[test]
fn a_failed_task_has_its_result_on_stdout_and_its_error_on_stderr() {
    let sandbox = TestSandbox::new();
    let output = given(&sandbox, &["--name", "unlucky"], "so far\n!error -32603 no luck").run();
    assert_eq!((output.status.code(), output.stdout.as_str()), (Some(1), "so far\n"), "{output}");
    let shown = sandbox.run(&["task", "show", "unlucky"]).data_of("task.shown");
    let id = shown["taskId"].as_str().unwrap();
    let lines: Vec<&str> = output.stderr.lines().collect();
    assert!(lines[0].starts_with("BACKEND_RPC_ERROR: ") && lines[0].contains("no luck"), "{output}");
    assert!(lines[1].starts_with("Hint: look at what the agent wrote"), "{output}");
    assert_eq!(lines[2], format!("Try: subagent logs {id}"), "{output}");
    // The suggested command works.
    sandbox.run(&["logs", id]).data();
    let output = given(&sandbox, &[], "!error -32603 no luck").run();
    assert_eq!((output.status.code(), output.stdout.as_str()), (Some(1), ""), "{output}");
    sandbox.finish();
}

#[test]
fn a_task_that_took_too_long_can_go_on_as_it_is_said() {
    let sandbox = TestSandbox::new();
    let output = given(&sandbox, &["--timeout", "1s"], "so far\n!sleep 60000").run();
    assert_eq!((output.status.code(), output.stdout.as_str()), (Some(1), "so far\n"), "{output}");
    assert!(output.stderr.starts_with("TIMED_OUT: "), "{output}");
    let command = output.stderr.lines().find_map(|line| line.strip_prefix("Try: subagent ")).unwrap();
    let words: Vec<&str> = command.split(' ').collect();
    assert_eq!((&words[..2], words[3]), (&["task", "message"][..], "--text"), "{command}");
    let sent = sandbox.run(&["task", "message", words[2], "--text", "Go on."]).data_of("task.messaged");
    assert_eq!(sent["message"], "resumed");
    let ended = sandbox.run(&["task", "wait", words[2]]).data_of("task.waited");
    assert_eq!((&ended["status"], &ended["result"]), (&json!("completed"), &json!("Go on.")), "{ended}");
    sandbox.finish();
}

#[test]
fn a_person_sees_the_error_last_and_a_program_gets_the_task() {
    let sandbox = TestSandbox::new();
    let prompt = "so far\n!error -32603 no luck\u{1b}[2J";
    let screen = given(&sandbox, &[], prompt).at_terminal(100, On::Both).screen();
    assert_eq!(screen.status.code(), Some(1), "{}", screen.text());
    let lines = screen.lines();
    let at = |text: &str| lines.iter().position(|line| line.starts_with(text)).unwrap_or(usize::MAX);
    let order = [at("so far"), at("BACKEND_RPC_ERROR: "), at("Hint: "), at("Try:  ")];
    assert!(order.is_sorted() && order[3] < usize::MAX && !screen.bytes.contains("[2J"), "{lines:?}");

    let output = given(&sandbox, &["--json"], "so far\n!error -32603 no luck").run();
    assert_eq!((output.status.code(), output.stderr.as_str()), (Some(1), ""), "{output}");
    let document: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!((&document["ok"], &document["type"]), (&json!(true), &json!("task.waited")));
    let data = &document["data"];
    assert_eq!((&data["status"], &data["result"]), (&json!("failed"), &json!("so far")), "{data}");
    assert_eq!(data["error"]["code"], "BACKEND_RPC_ERROR");
    assert_eq!(data["error"].get("details").and_then(|details| details.get("taskId")), None, "{data}");
    sandbox.finish();
}
