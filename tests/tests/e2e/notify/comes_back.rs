//! A daemon that dies while sinks, hooks or schedules need it comes back for a worker without
//! tasks. No command runs between the death and the result.

use std::fs;
use std::time::{Duration, Instant};

use subagent_tests::harness::{Gate, TestSandbox, wait_until};

use super::server::SinkServer;
use super::{SOON, configure, user_file};

/// Time without an expected start of a daemon. The first check is 1 s after the death.
const LONG_ENOUGH: Duration = Duration::from_secs(3);

/// A worker whose turn waits at a gate and then follows this directive.
fn at_gate(sandbox: &TestSandbox, directive: &str) -> (String, Gate) {
    sandbox.init();
    let (worker, gate) = (sandbox.start("demo"), sandbox.gate("turn"));
    let begun = sandbox.file_name("begun");
    let _ = sandbox.send_no_wait(&worker, &format!("!touch {begun}\n{}\n{directive}", gate.directive()));
    wait_until("the turn", SOON, || (sandbox.touches("begun") > 0).then_some(()));
    (worker, gate)
}

/// Asserts that no daemon starts for a while.
fn stays_away(sandbox: &TestSandbox) {
    let begin = Instant::now();
    wait_until("the time of the first check", SOON, || (begin.elapsed() > LONG_ENOUGH).then_some(()));
    assert!(sandbox.find_daemon().is_none());
}

fn wait_for_daemon(sandbox: &TestSandbox, after: u64) {
    let newer = || sandbox.daemon_info().filter(|info| info.generation > after);
    wait_until("the next daemon", SOON, newer);
}

#[test]
fn a_question_after_its_death_reaches_a_sink_with_variables_of_the_first_start() {
    let server = SinkServer::https();
    let mut sandbox = TestSandbox::new();
    sandbox.set_env("SSL_CERT_FILE", SinkServer::ca());
    sandbox.set_env("HOOK_URL", server.url());
    sandbox.set_env("SUBAGENT_WEBHOOK_SECRET", "very-secret-word");
    let (worker, gate) = at_gate(&sandbox, "!ask execute make all");
    // The worker is older than its sink.
    let secret = "secret: '${SUBAGENT_WEBHOOK_SECRET}'";
    configure(&sandbox, &format!("  - {{to: webhook, on: [question], url: '${{HOOK_URL}}', {secret}}}"));
    assert_eq!(sandbox.run(&["notify", "list"]).data_of("notify.listed")["count"], 1);
    awaited(&sandbox);
    let generation = sandbox.daemon_info().unwrap().generation;
    sandbox.kill_daemon();
    gate.open();
    let request = server.wait_for(1).remove(0);
    assert_eq!(request.json()["data"]["questions"][0]["worker"]["id"], worker.as_str());
    request.is_signed_with("very-secret-word");
    assert_eq!(sandbox.daemon_info().unwrap().generation, generation + 1);
    // At most once a minute.
    sandbox.kill_daemon();
    stays_away(&sandbox);
    sandbox.finish();
}

/// Waits until `daemon.json` says that something awaits the daemon.
fn awaited(sandbox: &TestSandbox) {
    let file = sandbox.state_dir().join("daemon.json");
    wait_until("the announcement", SOON, || {
        fs::read_to_string(&file).ok()?.contains("\"awaited\": true").then_some(())
    });
}

#[test]
fn a_hook_and_a_schedule_are_reasons_too() {
    let sandbox = TestSandbox::new();
    let hooks = "hooks: {Stop: [{hooks: [{type: command, command: 'cat > ~/stopped'}]}]}\n";
    fs::create_dir_all(user_file(&sandbox).parent().unwrap()).unwrap();
    fs::write(user_file(&sandbox), hooks).unwrap();
    let (_, gate) = at_gate(&sandbox, "!say done");
    sandbox.kill_daemon();
    gate.open();
    wait_until("the hook", SOON, || sandbox.file("home/stopped").exists().then_some(()));
    sandbox.finish();

    let sandbox = TestSandbox::new();
    let (worker, gate) = at_gate(&sandbox, "!say done");
    let add = ["schedule", "add", "later", "--every", "30m", "--send", &worker, "--text", "hello"];
    let _ = sandbox.run(&add).data_of("schedule.added");
    awaited(&sandbox);
    let generation = sandbox.daemon_info().unwrap().generation;
    sandbox.kill_daemon();
    wait_for_daemon(&sandbox, generation);
    gate.open();
    sandbox.finish();
}

#[test]
fn without_a_reason_and_after_an_end_in_order_none_comes_back() {
    let sandbox = TestSandbox::new();
    let (_, gate) = at_gate(&sandbox, "!say done");
    sandbox.kill_daemon();
    stays_away(&sandbox);
    configure(&sandbox, "  - {to: command, on: [done], command: 'cat > ~/told'}");
    sandbox.run(&["notify", "list"]).data_of("notify.listed");
    awaited(&sandbox);
    sandbox.run(&["daemon", "stop"]).data_of("daemon.stopped");
    gate.open();
    stays_away(&sandbox);
    assert!(!sandbox.file("home/told").exists());
    sandbox.finish();
}
