//! The scripts in examples/approve-after-the-manager-died work unchanged, with the scripted agent.

use std::fs;
use std::path::Path;
use std::time::Duration;

use nix::sys::signal::Signal;
use subagent_tests::harness::{Command, TestSandbox, executables, wait_until};

fn script(sandbox: &TestSandbox, name: &str) -> Command {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap()
        .join("examples/approve-after-the-manager-died");
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", executables().folder().display());
    sandbox.command("bash").env("PATH", path).args([folder.join(name)])
}

#[test]
fn what_was_asked_is_answered_after_the_manager_and_the_daemon_were_killed() {
    let sandbox = TestSandbox::new();
    sandbox.init();
    let task = sandbox.file("task.md");
    fs::write(&task, format!("!ask execute rm -rf build\n!touch {}", sandbox.file_name("done"))).unwrap();
    let manager = script(&sandbox, "manager.sh").args(["demo".as_ref(), task.as_os_str()]).spawn();
    let worker = wait_until("the agent to ask", Duration::from_secs(60), || {
        let listed = sandbox.run(&["approval", "list"]).data_of("inbox.listed");
        Some(listed["items"].get(0)?["workerId"].as_str()?.to_owned())
    });
    manager.signal(Signal::SIGKILL);
    let _ = manager.kill();
    sandbox.kill_daemon();
    let inbox = script(&sandbox, "inbox.sh").stdin("allow\n").deadline(Duration::from_secs(60)).run();
    assert!(inbox.status.success(), "{inbox}");
    for said in ["rm -rf build", "answer: subagent approve", "allow-once"] {
        assert!(inbox.text().contains(said), "{said} is not in {inbox}");
    }
    let ends = sandbox.events(&worker).into_iter().filter(|event| event["type"] == "turn.completed");
    assert_eq!(ends.count(), 1);
    assert_eq!(sandbox.touches("done"), 1);
    sandbox.finish();
}
