//! Starts of workers on the host of [`subagent_tests::harness::SshHost`].

use std::time::Duration;

use subagent_tests::harness::{Output, TestSandbox};

/// Time limit of operations there.
pub(super) const DEADLINE: Duration = Duration::from_secs(60);

/// Starts a worker there and returns its id.
pub(super) fn start(sandbox: &TestSandbox) -> String {
    let started = sandbox.run(&["worker", "start", "--launcher", "demo", "--on", "there"]);
    let data = started.data_of("worker.started");
    assert_eq!(data["state"], "idle", "{data}");
    data["workerId"].as_str().unwrap().to_owned()
}

/// A start that fails.
pub(super) fn start_fails(sandbox: &TestSandbox) -> Output {
    sandbox.run(&["worker", "start", "--launcher", "demo", "--on", "there"])
}
