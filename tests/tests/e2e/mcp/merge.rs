//! A caller learns what a merge of its task's files came to.

use std::fs;

use serde_json::{Value, json};
use subagent_tests::harness::{TestSandbox, wait_until};

use super::{FAR, McpClient};
use crate::look::git;

/// A repository with the files `a.txt` and `b.txt`, and agents that work in a worktree.
fn repository(keys: &str) -> TestSandbox {
    let mut sandbox = super::sandbox();
    sandbox.set_env("XDG_DATA_HOME", sandbox.file("data"));
    let ws = sandbox.workspace();
    let text = format!("---\ndescription: Writes\nlauncher: demo\nisolation: worktree\n{keys}---\n");
    fs::write(ws.join(".agents/agents/writer.md"), text).unwrap();
    git(&sandbox, &["init", "-q", "-b", "main", "."]);
    for (key, value) in [("user.name", "me"), ("user.email", "me@example.com")] {
        git(&sandbox, &["config", key, value]);
    }
    fs::write(ws.join(".git/info/exclude"), ".subagent/\n.agents/\n").unwrap();
    for name in ["a.txt", "b.txt"] {
        fs::write(ws.join(name), "one\n").unwrap();
    }
    git(&sandbox, &["add", "-A"]);
    git(&sandbox, &["commit", "-qm", "first"]);
    sandbox
}

fn read(sandbox: &TestSandbox, name: &str) -> String {
    fs::read_to_string(sandbox.workspace().join(name)).unwrap()
}

/// Gives a task that changes both files, waits for it, and returns its id and the result's text.
fn give(client: &mut McpClient, name: &str) -> String {
    let prompt = "!edit replace a.txt 1 A\n!edit replace b.txt 1 B\ndone";
    let (text, is_error) =
        client.called("task", json!({"agent": "writer", "name": name, "prompt": prompt, "description": "d"}));
    assert!(!is_error, "{text}");
    text
}

fn look(client: &mut McpClient, name: &str) -> Value {
    let (text, _) = client.called("get_subagents", json!({"name_or_id": name}));
    serde_json::from_str(&text).unwrap()
}

#[test]
fn the_result_of_a_task_has_the_merge_of_its_files() {
    let sandbox = repository("");
    let mut client = McpClient::new(&sandbox);
    let text = give(&mut client, "Fix");
    assert!(!text.contains("merge"), "{text}");
    let found = look(&mut client, "Fix");
    let id = found["id"].as_str().unwrap();
    assert_eq!(found["merge"], Value::Null, "{found}");
    assert_eq!(read(&sandbox, "a.txt"), "one\n");
    fs::write(sandbox.workspace().join("b.txt"), "mine\n").unwrap();
    sandbox.run(&["task", "merge", "Fix"]).error("LAND_CONFLICT");
    let merge = look(&mut client, "Fix")["merge"].clone();
    assert_eq!((&merge["outcome"], &merge["files"]), (&json!("conflict"), &json!(["a.txt"])), "{merge}");
    assert_eq!((&merge["conflicts"], &merge["error"]), (&json!(["b.txt"]), &Value::Null), "{merge}");
    fs::write(sandbox.workspace().join("b.txt"), "one\n").unwrap();
    let merged = sandbox.run(&["task", "merge", "Fix"]).data_of("worktree.merged");
    assert_eq!((&merged["files"], &merged["refused"]), (&json!(["b.txt"]), &json!([])), "{merged}");
    let shown = sandbox.run(&["task", "show", "Fix"]).data();
    assert_eq!((&shown["merge"]["outcome"], &shown["merge"]["refused"]), (&json!("merged"), &json!([])));
    let events = sandbox.events(id);
    let events: Vec<&Value> = events.iter().filter(|event| event["type"] == "worktree.merged").collect();
    let reported = |event: &Value| (event["data"]["files"].clone(), event["data"]["refused"].clone());
    assert_eq!(reported(events[0]), (json!(["a.txt"]), json!(["b.txt"])), "{events:?}");
    assert_eq!(reported(events[1]), (json!(["b.txt"]), json!([])), "{events:?}");
    assert_eq!(events[1]["data"]["name"], merged["name"], "{events:?}");
    client.end();
    sandbox.finish();
}

#[test]
fn a_completed_task_writes_its_files_back() {
    let sandbox = repository("writeBack: auto\n");
    let mut client = McpClient::new(&sandbox);
    let text = give(&mut client, "First");
    assert!(text.contains(r#" merge="merged" merged="a.txt, b.txt">"#), "{text}");
    assert_eq!((read(&sandbox, "a.txt"), read(&sandbox, "b.txt")), ("A\n".to_owned(), "B\n".to_owned()));
    assert_eq!(git(&sandbox, &["log", "--format=%s"]), "first\n", "nothing is committed");
    git(&sandbox, &["checkout", "--", "."]);
    // Another one, while its caller changes a file.
    let gate = sandbox.gate("working");
    let reached = format!("!touch {}\n{}", sandbox.file("second").display(), gate.directive());
    let prompt = format!("!edit replace a.txt 1 A\n!edit replace b.txt 1 B\n{reached}\ndone");
    let task = client
        .call("task", json!({"agent": "writer", "name": "Second", "prompt": prompt, "description": "d"}));
    wait_until("the second task", FAR, || (sandbox.touches("second") == 1).then_some(()));
    fs::write(sandbox.workspace().join("b.txt"), "mine\n").unwrap();
    gate.open();
    let (text, is_error) = client.text(task);
    assert!(!is_error, "{text}");
    assert!(text.contains(r#" merge="conflict" merged="a.txt" conflicts="b.txt">"#), "{text}");
    assert_eq!((read(&sandbox, "a.txt"), read(&sandbox, "b.txt")), ("A\n".to_owned(), "mine\n".to_owned()));
    // A failed task keeps its files.
    git(&sandbox, &["checkout", "--", "."]);
    let prompt = "!edit replace a.txt 1 A\n!error -32603 broken";
    let arguments = json!({"agent": "writer", "name": "Third", "prompt": prompt, "description": "d"});
    let (text, is_error) = client.called("task", arguments);
    assert!(is_error && !text.contains("merge="), "{text}");
    assert_eq!(read(&sandbox, "a.txt"), "one\n");
    // Files that say what agents may do wait for a person.
    let prompt = "!edit replace a.txt 1 A\n!shell mkdir -p .claude/agents && echo x > .claude/agents/x.md";
    let arguments = json!({"agent": "writer", "name": "Fourth", "prompt": prompt, "description": "d"});
    let (text, is_error) = client.called("task", arguments);
    assert!(!is_error && text.contains(r#" merged="a.txt" conflicts=".claude/agents/x.md">"#), "{text}");
    assert!(!sandbox.workspace().join(".claude").exists());
    let merged = sandbox.run(&["task", "merge", "Fourth"]).data_of("worktree.merged");
    assert_eq!(merged["files"], json!([".claude/agents/x.md"]), "{merged}");
    assert_eq!(read(&sandbox, ".claude/agents/x.md"), "x\n");
    client.end();
    sandbox.finish();
}

#[test]
fn a_merge_that_fails_does_not_fail_the_task() {
    let sandbox = repository("writeBack: auto\n");
    let mut client = McpClient::new(&sandbox);
    let gate = sandbox.gate("working");
    let reached = format!("!touch {}\n{}", sandbox.file("edited").display(), gate.directive());
    let prompt = format!("!edit replace a.txt 1 A\n{reached}\ndone");
    let arguments = json!({
        "name": "Fix", "task": prompt, "mode": "background", "config": {"agent_id": "writer"},
    });
    let _ = client.called("spawn_subagent", arguments);
    wait_until("the task", FAR, || (sandbox.touches("edited") == 1).then_some(()));
    let shown = sandbox.run(&["task", "show", "Fix"]).data();
    let tree = std::path::PathBuf::from(shown["worktree"]["path"].as_str().unwrap());
    let aside = tree.with_extension("aside");
    // Git finds no repository in its place.
    fs::rename(tree.join(".git"), &aside).unwrap();
    gate.open();
    let found = client.called("get_subagents", json!({"name_or_id": "Fix", "wait_seconds": 30})).0;
    let found: Value = serde_json::from_str(&found).unwrap();
    assert_eq!(
        (&found["status"], &found["merge"]["outcome"]),
        (&json!("completed"), &json!("failed")),
        "{found}"
    );
    assert!(found["merge"]["error"]["code"].is_string(), "{found}");
    fs::rename(&aside, tree.join(".git")).unwrap();
    let merged = sandbox.run(&["task", "merge", "Fix"]).data_of("worktree.merged");
    assert_eq!(merged["files"], json!(["a.txt"]), "{merged}");
    client.end();
    sandbox.finish();
}
