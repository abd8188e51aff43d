//! Results of tasks from the outside: one that has to meet a schema is asked for once more, whoever dies in between.

#![allow(clippy::unwrap_used, clippy::panic, reason = "all of this file is a test")]

use std::fs;
use std::time::Duration;

use serde_json::{Value, json};
use subagent_tests::harness::{Launcher, Sandbox, wait_until};

const SOON: Duration = Duration::from_secs(30);

/// The definition of an agent with these keys.
fn define(sandbox: &Sandbox, name: &str, keys: &str) {
    let folder = sandbox.workspace().join(".agents/agents");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join(format!("{name}.md")), format!("---\ndescription: Works\n{keys}\n---\n")).unwrap();
}

/// A workspace with an agent that says what it is told, and one that says `[7]` whenever it is asked once more.
fn sandbox() -> Sandbox {
    let mut sandbox = Sandbox::new();
    let demo = sandbox.demo_agent(&[]);
    sandbox.launcher("demo", demo);
    let asked = r#"s/Your last message is the result.*```"/!say [7]"/"#;
    let agent = format!("sed -u '{asked}' | '{}' demo-agent", sandbox.executable("subagent"));
    sandbox.launcher("obliging", Launcher::new("sh", ["-c", &agent]));
    define(&sandbox, "stubborn", "launcher: demo\nresultSchema: {type: array, items: {type: integer}}");
    define(&sandbox, "obliging", "launcher: obliging\nresultSchema: {type: array, items: {type: integer}}");
    sandbox
}

fn run(sandbox: &Sandbox, agent: &str, prompt: &str) -> Value {
    let args = ["task", "run", "--agent", agent, "--name", agent, "--text", prompt, "--json"];
    let ran = sandbox.subagent(&args).run();
    let printed: Value = serde_json::from_str(&ran.stdout).unwrap_or_else(|_| panic!("{ran}"));
    let ended = printed["data"].clone();
    assert_eq!(ran.status.code(), Some(i32::from(ended["status"] != "completed")), "{ran}");
    ended
}

/// The types of a worker's events that begin so, and the messages that it was sent.
fn told(sandbox: &Sandbox, worker: &Value) -> (Vec<String>, Vec<String>) {
    let events = sandbox.events(worker.as_str().unwrap());
    let types = events.iter().filter_map(|event| event["type"].as_str());
    let ends = types.filter(|word| word.starts_with("subagent.") || *word == "turn.completed");
    let sent = events.iter().filter(|event| event["type"] == "message.sent");
    let text = |event: &Value| event["data"]["text"].as_str().unwrap().to_owned();
    (ends.map(str::to_owned).collect(), sent.map(text).collect())
}

#[test]
fn m11_a_result_that_does_not_fit_its_schema_is_asked_for_once_more() {
    let sandbox = sandbox();
    let ended = run(&sandbox, "obliging", "!tool read one\n!say seven");
    assert_eq!((&ended["status"], &ended["result"]), (&json!("completed"), &json!("[7]")), "{ended}");
    assert_eq!((&ended["runs"], &ended["steps"], &ended["toolCalls"]), (&json!(1), &json!(0), &json!(1)));
    let (events, sent) = told(&sandbox, &ended["taskId"]);
    assert_eq!(events, ["subagent.spawned", "turn.completed", "turn.completed", "subagent.completed"]);
    assert_eq!(sent.len(), 2);
    assert!(sent[1].contains("- the message is no JSON"), "{}", sent[1]);
    assert!(sent[1].contains("\"type\": \"integer\""), "the schema: {}", sent[1]);
    let fenced = "Here it is:\n```json\n[1, 2]\n```";
    let chunks: Vec<String> = fenced.lines().map(|line| json!(format!("{line}\n")).to_string()).collect();
    let said: Vec<String> = chunks
        .iter()
        .map(|text| {
            let update = format!(r#"{{"sessionUpdate":"agent_message_chunk","content":{{"type":"text","text":{text}}}}}"#);
            format!(r#"!raw {{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"SESSION","update":{update}}}}}"#)
        })
        .collect();
    let again = ["task", "message", "obliging", "--text", &said.join("\n")];
    sandbox.run(&again).data_of("task.messaged");
    let ended = sandbox.run(&["task", "wait", "obliging"]).data_of("task.waited");
    assert_eq!((&ended["status"], &ended["runs"]), (&json!("completed"), &json!(2)), "{ended}");
    assert_eq!(ended["result"], format!("{fenced}\n"));
    assert_eq!(told(&sandbox, &ended["taskId"]).1.len(), 3, "what fits is asked for once");
    sandbox.finish();
}

#[test]
fn m11_a_result_that_does_not_fit_a_second_time_is_a_failure_and_kept() {
    let sandbox = sandbox();
    let ended = run(&sandbox, "stubborn", "!say {\"n\": 1}");
    assert_eq!((&ended["status"], &ended["runs"]), (&json!("failed"), &json!(1)), "{ended}");
    assert_eq!(ended["error"]["code"], "RESULT_SCHEMA_NOT_MET");
    let wrong = ended["error"]["details"]["errors"].as_array().unwrap();
    assert!(wrong[0]["message"].is_string() && wrong[0]["path"] == "", "{wrong:?}");
    assert!(ended["result"].as_str().unwrap().starts_with("Your last message"), "what it said last: {ended}");
    let (events, sent) = told(&sandbox, &ended["taskId"]);
    assert_eq!(events, ["subagent.spawned", "turn.completed", "turn.completed", "subagent.failed"]);
    assert!(sent[1].contains("is not of type \"array\""), "{}", sent[1]);
    sandbox.finish();
}

#[test]
fn m11_a_daemon_that_dies_between_a_refused_result_and_the_next_turn_leaves_one_question() {
    for point in ["task_result.before_commit", "task_result.after_commit", "queue_open.before_commit@2"] {
        let mut sandbox = sandbox();
        let once = sandbox.file("reached");
        let at = if point.contains('@') { point.replace('@', "=abort@") } else { format!("{point}=abort@1") };
        sandbox.set_env("SUBAGENT_FAILPOINTS", at);
        sandbox.set_env("SUBAGENT_FAILPOINTS_ONCE", &once);
        let args =
            ["task", "run", "--agent", "obliging", "--name", "one", "--background", "--text", "!say one"];
        let id = sandbox.run(&args).data_of("task.spawned")["taskId"].clone();
        wait_until("the point to be reached", SOON, || once.exists().then_some(()));
        let ended = sandbox.run(&["task", "wait", "one"]).data_of("task.waited");
        assert_eq!((&ended["status"], &ended["result"]), (&json!("completed"), &json!("[7]")), "{point}");
        let (events, sent) = told(&sandbox, &id);
        assert_eq!(
            events,
            ["subagent.spawned", "turn.completed", "turn.completed", "subagent.completed"],
            "{point}"
        );
        assert_eq!(sent.len(), 2, "{point}");
        sandbox.finish();
    }
}

#[test]
fn what_is_no_schema_is_refused_where_the_definition_is_read() {
    let sandbox = sandbox();
    define(&sandbox, "broken", "resultSchema: {type: objekt}");
    let checked = sandbox.subagent(&["agent", "validate", "--json"]).run();
    assert!(checked.stdout.contains("is no JSON Schema at /type"), "{checked}");
    let refused = ["task", "run", "--agent", "broken", "--text", "x"];
    let error = sandbox.run(&refused).error("AGENT_NOT_USABLE");
    assert!(error["message"].as_str().unwrap().contains("resultSchema"), "{error}");
    sandbox.finish();
}
