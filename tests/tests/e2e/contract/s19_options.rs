//! Options of agents' sessions: modes, models, config options.

mod attachments;
mod choices;
mod places;
mod refusals;

use serde_json::Value;
use subagent_tests::harness::{TestLauncher, TestSandbox};

/// A world with a launcher `sdk`: the agent on the official SDK, with this form of options.
fn offering(what: &str, more: impl FnOnce(TestLauncher) -> TestLauncher) -> TestSandbox {
    let mut sandbox = TestSandbox::new();
    let state = sandbox.file_name("sdk-sessions");
    let agent = sandbox.test_agent("sdk-agent", &["--state", &state, "--offer", what]);
    sandbox.launcher("sdk", more(agent));
    sandbox.init();
    sandbox
}

/// Starts a worker of this launcher with further flags.
fn started(sandbox: &TestSandbox, flags: &[&str]) -> String {
    let args = [&["worker", "start", "--launcher", "sdk"], flags].concat();
    sandbox.run(&args).data_of("worker.started")["workerId"].as_str().unwrap().to_owned()
}

fn set(sandbox: &TestSandbox, worker: &str, flags: &[&str]) -> Value {
    let args = [&["worker", "set", "--worker-id", worker], flags].concat();
    sandbox.run(&args).data_of("worker.set")
}

/// Returns the agent's own report of its options: mode, model, effort, fast.
fn says(sandbox: &TestSandbox, worker: &str) -> String {
    let text = sandbox.send(worker, "options")["assistantText"].as_str().unwrap().to_owned();
    text.split(' ').next().unwrap().to_owned()
}

/// Returns the events of options that were set, as pairs of option and value.
fn options_set(sandbox: &TestSandbox, worker: &str) -> Vec<(String, Value)> {
    let events = sandbox.events(worker);
    let set = events.iter().filter(|event| event["data"]["applied"].is_boolean());
    set.map(|event| (event["data"]["option"].as_str().unwrap().to_owned(), event["data"]["value"].clone()))
        .collect()
}
