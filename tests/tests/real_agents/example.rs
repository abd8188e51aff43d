//! The examples with real agents. `examples/policy-with-a-real-agent`: denied actions do not run,
//! and allowed ones are not asked. `examples/delegation`: an agent is notified about two others
//! once, although the daemon is killed.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use serde_json::json;
use subagent_tests::harness::{Output, TestSandbox, executables, wait_until};
use subagent_tests::real_agent::{AGENTS, RealAgent};

use super::crew::Crew;
use super::world::{DEADLINE, RealAgentWorld};

pub(crate) fn git(folder: &Path, args: &[&str]) -> String {
    let output = Command::new("git").current_dir(folder).args(args).output().unwrap();
    assert!(output.status.success(), "{args:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("examples").join(name)
}

fn bash(sandbox: &TestSandbox) -> subagent_tests::harness::Command {
    let path = env::var("PATH").unwrap_or_default();
    let path = format!("{}:{path}", executables().folder().display());
    sandbox.command("bash").env("PATH", path).deadline(DEADLINE)
}

/// Runs the script of the example with this task.
fn work(world: &RealAgentWorld, task: &str) -> Output {
    let script = example("policy-with-a-real-agent/work.sh");
    let file = world.sandbox.file("task.md");
    fs::write(&file, task).unwrap();
    bash(&world.sandbox).args([script.as_os_str(), world.agent.name.as_ref(), file.as_os_str()]).run()
}

#[test]
fn an_agent_under_rules_does_what_is_allowed_and_not_what_is_denied() {
    let Some(agent) = AGENTS.into_iter().find(|agent| RealAgent::is_installed(agent)) else { return };
    let world = RealAgentWorld::empty(agent);
    let folder = world.sandbox.workspace();
    let published = world.sandbox.file("published.git");
    git(world.sandbox.path(), &["init", "-q", "--bare", published.to_str().unwrap()]);
    git(&folder, &["init", "-q"]);
    for (key, value) in [
        ("user.name", "a"),
        ("user.email", "a@example.com"),
        ("remote.origin.url", published.to_str().unwrap()),
    ] {
        git(&folder, &["config", key, value]);
    }
    let output = work(&world, "RUN: git commit --allow-empty -m 'made under rules'");
    assert!(output.text().contains("DONE: "), "{output}");
    assert!(git(&folder, &["log", "--format=%s"]).contains("made under rules"));

    let output = work(&world, "RUN: git push origin HEAD:refs/heads/main");
    assert_eq!(output.status.code(), Some(12), "{output}");
    assert_eq!(git(&published, &["for-each-ref"]), "", "it was denied");
    world.finish();
}

#[test]
fn m8_the_example_of_delegation_hears_of_both_tasks_once_although_it_kills_the_daemon() {
    // The reviewer's launcher is codex; the other one has its caller's.
    if !["claude", "codex"].iter().all(|name| RealAgent::is_installed(name)) {
        return;
    }
    let crew = Crew::new(&["claude", "codex"]);
    let definitions = crew.sandbox.workspace().join(".agents/agents");
    fs::create_dir_all(&definitions).unwrap();
    for file in fs::read_dir(example("delegation/.agents/agents")).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), definitions.join(file.file_name())).unwrap();
    }
    let (gate, messages) = (crew.sandbox.gate("both"), crew.sandbox.file("messages"));
    fs::create_dir(&messages).unwrap();
    for (agent, report) in [
        ("reviewer", "lib.rs:7 one is too many".to_owned()),
        ("test-runner", json!({"passed": true, "command": "cargo test", "failures": []}).to_string()),
    ] {
        let prompt = format!("GATE: {}\n{report}", gate.path().display());
        let call = json!({"agent": agent, "description": agent, "prompt": prompt, "background": true});
        fs::write(messages.join(format!("{agent}.md")), format!("MCP: subagent/task {call}")).unwrap();
    }
    let daemon = crew.sandbox.daemon();
    let script = example("delegation/run.sh");
    let running = bash(&crew.sandbox)
        .args([script.as_os_str(), "claude".as_ref(), messages.as_os_str()])
        .deadline(2 * DEADLINE)
        .spawn();
    wait_until("the script to kill the daemon", DEADLINE, || (!daemon.lives()).then_some(()));
    gate.open();
    let output = running.output();
    let reported = |name: &str| {
        let begin = format!("[Subagent '{name}' (w_");
        let prompts = crew.models.prompts();
        let reported: Vec<_> = prompts.iter().filter(|prompt| prompt.contains(&begin)).collect();
        assert_eq!(reported.len(), 1, "{reported:?}\n{output}");
        let line = |line: &str| line.contains(&begin) && line.trim_start().starts_with("1 ");
        assert!(output.text().lines().any(|said| line(said) && said.ends_with(" completed")), "{output}");
        reported[0].clone()
    };
    assert!(reported("reviewer").contains("lib.rs:7 one is too many"), "{output}");
    assert!(reported("test-runner").contains(r#""passed":true"#), "{output}");
    let tasks = crew.sandbox.run(&["task", "list"]).data_of("task.listed");
    let launchers: Vec<_> =
        tasks["items"].as_array().unwrap().iter().map(|task| (&task["launcher"], &task["status"])).collect();
    assert_eq!(launchers, [(&json!("codex"), &json!("completed")), (&json!("claude"), &json!("completed"))]);
    crew.finish();
}
