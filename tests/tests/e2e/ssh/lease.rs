//! The lease of a placement: what a runtime there does when its daemon does not come back.

use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use subagent_tests::harness::process::Process;
use subagent_tests::harness::{SshHost, TestSandbox, wait_until};

/// Time limit of operations there.
const DEADLINE: Duration = Duration::from_secs(60);
/// Time limit of what begins a minute after a connection went silent.
const LONG_DEADLINE: Duration = Duration::from_secs(150);

/// Longer than a daemon on a busy machine takes to dial the runtime that it has just started.
const LEASE: &str = "10s";

/// Starts a worker there with a short lease, and a turn of it that does not end.
fn working(sandbox: &TestSandbox, host: &SshHost) -> (String, Value, Process) {
    host.place(sandbox, json!({"lease": LEASE, "program": sandbox.executable("subagent-runtime")}));
    sandbox.init();
    let worker = sandbox.start_on("there");
    let accepted = sandbox.send_no_wait(&worker, "!say begun\n!sleep 600000");
    let dispatched = "SELECT count(*) FROM events WHERE type = 'runtime.turn_dispatching'";
    wait_until("the prompt", DEADLINE, || (sandbox.number(dispatched) > 0).then_some(()));
    let runtime = sandbox.runtime(&worker);
    (worker, accepted, runtime)
}

fn is_canceled_by_its_lease(sandbox: &TestSandbox, worker: &str, accepted: &Value) {
    let end = sandbox.turn_end(accepted);
    assert_eq!(end["type"], "turn.canceled", "{end}");
    let said = json!(sandbox.events(worker)).to_string();
    assert!(said.contains("no daemon for 10 s, the lease of its placement"), "{said}");
    let answer = sandbox.send(worker, "!say still here");
    assert!(answer["assistantText"].as_str().unwrap().contains("still here"), "{answer}");
}

#[test]
fn without_a_daemon_a_lease_ends_the_turn_and_everything_there() {
    let sandbox = TestSandbox::new();
    let Some(host) = SshHost::start(&sandbox) else { return };
    let (worker, accepted, _runtime) = working(&sandbox, &host);
    sandbox.kill_daemon();
    wait_until("the end of everything there", DEADLINE, || sandbox.processes().is_empty().then_some(()));
    is_canceled_by_its_lease(&sandbox, &worker, &accepted);
    sandbox.finish();
}

#[test]
fn behind_a_dead_connection_a_lease_ends_the_turn_too() {
    let sandbox = TestSandbox::new();
    let Some(host) = SshHost::start(&sandbox) else { return };
    let (worker, accepted, runtime) = working(&sandbox, &host);
    // The place sees no end of its connection, and the daemon gets no other one.
    host.configure_client("other", "host");
    host.hang();
    wait_until("the end of the runtime there", LONG_DEADLINE, || (!runtime.lives()).then_some(()));
    host.cut();
    host.configure_client("user", "host");
    is_canceled_by_its_lease(&sandbox, &worker, &accepted);
    sandbox.finish();
}

#[test]
fn a_daemon_that_comes_back_in_time_keeps_the_turn() {
    let sandbox = TestSandbox::new();
    let Some(host) = SshHost::start(&sandbox) else { return };
    host.place(&sandbox, json!({"lease": "1h", "program": sandbox.executable("subagent-runtime")}));
    sandbox.init();
    let worker = sandbox.start_on("there");
    let gate = sandbox.gate("work");
    let accepted = sandbox.send_no_wait(&worker, &format!("{}\n!say done", gate.directive()));
    sandbox.wait_for_prompt(1);
    let runtime = sandbox.runtime(&worker);
    sandbox.daemon().signal(Signal::SIGKILL);
    gate.open();
    assert_eq!(sandbox.turn_end(&accepted)["type"], "turn.completed");
    assert!(runtime.lives());
    sandbox.finish();
}
