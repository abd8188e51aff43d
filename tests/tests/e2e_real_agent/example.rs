//! `examples/policy-with-a-real-agent`, with a real agent: what the rules deny does not run, and what they allow is not asked.

use std::path::Path;
use std::process::Command;
use std::{env, fs};

use subagent_tests::harness::{Output, executables};
use subagent_tests::real_agent::{AGENTS, RealAgent};

use super::world::{DEADLINE, World};

fn git(folder: &Path, args: &[&str]) -> String {
    let output = Command::new("git").current_dir(folder).args(args).output().unwrap();
    assert!(output.status.success(), "{args:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The script of the example, with this task.
fn work(world: &World, task: &str) -> Output {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/policy-with-a-real-agent/work.sh");
    let file = world.sandbox.file("task.md");
    fs::write(&file, task).unwrap();
    let path = env::var("PATH").unwrap_or_default();
    let path = format!("{}:{path}", executables().folder().display());
    let bash = world.sandbox.command("bash").env("PATH", path).deadline(DEADLINE);
    bash.args([script.as_os_str(), world.agent.name.as_ref(), file.as_os_str()]).run()
}

#[test]
fn an_agent_under_rules_does_what_is_allowed_and_not_what_is_denied() {
    let Some(agent) = AGENTS.into_iter().find(|agent| RealAgent::is_installed(agent)) else { return };
    let world = World::empty(agent);
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
