//! Questions to an agent without a worker: its identity, logins, its sessions. No process is
//! left in any case.

mod auth;
mod login;
mod probe;
mod resume;
mod sessions;

use serde_json::Value;
use subagent_tests::harness::{TestLauncher, TestSandbox};

/// A world with the hostile agent and scripted requests.
fn scripted(flags: &[&str]) -> TestSandbox {
    let mut sandbox = TestSandbox::new();
    let agent = sandbox.test_agent("hostile-agent", flags);
    sandbox.launcher("agent", agent);
    sandbox
}

/// The same with an agent that gets little time to answer.
fn impatient(flags: &[&str]) -> TestSandbox {
    let mut sandbox = TestSandbox::new();
    let agent = hurried(sandbox.test_agent("hostile-agent", flags));
    sandbox.launcher("agent", agent);
    sandbox
}

fn hurried(agent: TestLauncher) -> TestLauncher {
    agent.startup_seconds(1.0)
}

/// Checks that there is no process and no folder for a session.
#[track_caller]
fn nothing_left(sandbox: &TestSandbox) {
    let left: Vec<_> =
        std::fs::read_dir(sandbox.file("tmp")).unwrap().flatten().map(|entry| entry.path()).collect();
    assert!(left.is_empty(), "{left:?}");
    assert!(sandbox.processes().is_empty(), "{:?}", sandbox.processes());
}

/// Returns the names of the completed phases.
fn phases(value: &Value) -> Vec<&str> {
    value["phases"].as_array().unwrap().iter().map(|phase| phase["phase"].as_str().unwrap()).collect()
}
