//! `UserPromptSubmit`: its input, and the messages for which it runs.

use std::fs;

use serde_json::{Value, json};
use subagent_tests::harness::TestSandbox;

use super::{command, fits_the_schema, own_config, project_hooks};

/// Keeps its input, and refuses messages that contain the word.
fn hook(sandbox: &TestSandbox) -> String {
    let file = sandbox.file_name("read");
    format!(
        "awk 1 >> {file}; tail -n 1 {file} | grep -q secret && {{ echo 'no secrets' >&2; exit 2; }}; exit 0"
    )
}

fn set(sandbox: &TestSandbox) {
    own_config(sandbox, &format!("hooks: {}\n", json!({"UserPromptSubmit": command(&hook(sandbox))})));
}

fn read(sandbox: &TestSandbox) -> Vec<Value> {
    let text = fs::read_to_string(sandbox.file("read")).unwrap();
    let inputs: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    inputs.iter().for_each(fits_the_schema);
    inputs
}

#[test]
fn a_message_waits_until_the_file_of_its_hook_is_trusted() {
    let sandbox = TestSandbox::new();
    sandbox.init();
    project_hooks(&sandbox, &json!({"UserPromptSubmit": command("exit 0")}));
    let worker = sandbox.start("demo");
    let error = sandbox.sending(&worker, "hello").run().error("HOOK_FAILED");
    assert!(error["message"].as_str().unwrap().contains("subagent hook trust"), "{error}");
    assert!(!sandbox.events(&worker).iter().any(|event| event["type"] == "message.sent"));
    let file = sandbox.config_file();
    let _ = sandbox.run(&["hook", "trust", file.to_str().unwrap(), "--yes"]).data_of("hook.trusted");
    assert_eq!(sandbox.send(&worker, "hello")["matchedEvent"]["type"], "turn.completed");
    sandbox.finish();
}

#[test]
fn the_text_of_blocks_and_attached_files_is_part_of_the_message() {
    let sandbox = TestSandbox::new();
    set(&sandbox);
    sandbox.init();
    let worker = sandbox.start("demo");
    fs::write(sandbox.workspace().join("notes.txt"), "the secret of the file").unwrap();
    let block = r#"[{"type": "text", "text": "say secret"}]"#;
    let resource = r#"[{"type": "resource", "resource": {"uri": "file:///x", "text": "a secret, too"}}]"#;
    for more in [["--blocks", block], ["--blocks", resource], ["--attach", "notes.txt"]] {
        let error = sandbox.sending(&worker, "hi").args(more).run().error("HOOK_DENIED");
        assert!(error["message"].as_str().unwrap().contains("no secrets"), "{more:?}: {error}");
        assert_eq!(error["details"]["workerId"], json!(worker), "{error}");
    }
    let prompts: Vec<Value> = read(&sandbox).into_iter().map(|input| input["prompt"].clone()).collect();
    assert_eq!(prompts, ["hi\n\nsay secret", "hi\n\na secret, too", "hi\n\nthe secret of the file"]);
    let sent = sandbox.send(&worker, "hi");
    assert_eq!(read(&sandbox).last().unwrap()["turnId"], sent["turnId"], "{sent}");
    assert!(!sandbox.events(&worker).iter().any(|event| event.to_string().contains("secret")));
    sandbox.finish();
}

#[test]
fn the_owners_messages_to_tasks_are_asked_about_and_those_of_agents_are_not() {
    let mut sandbox = TestSandbox::new();
    set(&sandbox);
    let root = sandbox.delegating(&json!(true), &[]);
    let run = |name: &str, text: &str| {
        sandbox.run(&[
            "task",
            "run",
            "--agent",
            "nested",
            "--launcher",
            "demo",
            "--name",
            name,
            "--text",
            text,
        ])
    };
    let error = run("One", "!say the secret").error("HOOK_DENIED");
    assert!(error["message"].as_str().unwrap().contains("no secrets"), "{error}");
    assert_eq!(sandbox.run(&["task", "list", "--all"]).data_of("task.listed")["items"], json!([]));
    assert!(run("One", "!say hello").status.success());
    let input = read(&sandbox).pop().unwrap();
    assert_eq!((&input["prompt"], &input["path"]), (&json!("!say hello"), &json!(["One"])), "{input}");
    assert!(input["turnId"].is_string(), "{input}");
    let message = |text: &str| sandbox.run(&["task", "message", "One", "--text", text]);
    let error = message("!say secret").error("HOOK_DENIED");
    assert!(error["details"]["task"].is_string(), "{error}");
    message("!say again").data_of("task.messaged");
    let asked = read(&sandbox).len();
    assert_eq!(asked, 4, "{:?}", read(&sandbox));
    // The agent's own task is not affected; the message that causes it is the owner's.
    let kid = sandbox.task_file("nested", "Kid", "foreground", "!say the secret");
    let _ = sandbox.send(&root, &sandbox.gives(&kid));
    assert_eq!(read(&sandbox).len(), asked + 1);
    let reported = sandbox.run(&["task", "show", "Kid"]).data_of("task.shown");
    assert_eq!(reported["status"], "completed", "{reported}");
    sandbox.finish();
}
