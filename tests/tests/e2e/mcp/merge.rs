//! A caller learns what a merge of its task's files came to.

use std::fs;

use serde_json::{Value, json};
use subagent_tests::harness::Sandbox;

use super::Client;
use crate::look::git;

/// A repository with the files `a.txt` and `b.txt`, and agents that work in a worktree.
fn repository(keys: &str) -> Sandbox {
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

fn read(sandbox: &Sandbox, name: &str) -> String {
    fs::read_to_string(sandbox.workspace().join(name)).unwrap()
}

/// Gives a task that changes both files, waits for it, and returns its id and the result's text.
fn give(client: &mut Client, name: &str) -> String {
    let prompt = "!edit replace a.txt 1 A\n!edit replace b.txt 1 B\ndone";
    let (text, is_error) =
        client.called("task", json!({"agent": "writer", "name": name, "prompt": prompt, "description": "d"}));
    assert!(!is_error, "{text}");
    text
}

fn look(client: &mut Client, name: &str) -> Value {
    let (text, _) = client.called("get_subagents", json!({"name_or_id": name}));
    serde_json::from_str(&text).unwrap()
}

#[test]
fn the_result_of_a_task_has_the_merge_of_its_files() {
    let sandbox = repository("");
    let mut client = Client::new(&sandbox);
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
    let told = |event: &Value| (event["data"]["files"].clone(), event["data"]["refused"].clone());
    assert_eq!(told(events[0]), (json!(["a.txt"]), json!(["b.txt"])), "{events:?}");
    assert_eq!(told(events[1]), (json!(["b.txt"]), json!([])), "{events:?}");
    assert_eq!(events[1]["data"]["name"], merged["name"], "{events:?}");
    client.end();
    sandbox.finish();
}
