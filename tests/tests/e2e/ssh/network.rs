//! A host behind a network that is cut, loses packets or is slow.

use std::fs;
use std::time::{Duration, Instant};

use subagent_tests::harness::{SshHost, TestSandbox, wait_until};

/// Time limit of operations there.
const DEADLINE: Duration = Duration::from_secs(120);
/// Time within which a host that does not answer is shown.
const NOTICED: Duration = Duration::from_secs(30);
/// Time for which the network is cut.
const MINUTE: Duration = Duration::from_secs(60);

/// Waits until the worker is shown as unreachable, and returns the time since a moment.
fn wait_for_unreachable(sandbox: &TestSandbox, worker: &str, since: Instant) -> Duration {
    wait_until("the worker to be unreachable", DEADLINE, || {
        sandbox.show(worker)["unreachable"].is_object().then_some(())
    });
    since.elapsed()
}

#[test]
fn a_turn_goes_on_while_the_network_is_cut_for_a_minute() {
    let sandbox = TestSandbox::new();
    let Some(host) = SshHost::start_in_network(&sandbox) else { return };
    sandbox.init();
    let worker = sandbox.start_on("there");
    let runtime = sandbox.runtime(&worker);
    let gate = sandbox.gate("turn");
    let text = format!("!say begun\n{}\n!ask edit notes.md\n!say done", gate.directive());
    let send = ["send", "--worker-id", &worker, "--text", &text, "--wait-timeout-seconds", "240"];
    let waiting = sandbox.subagent(&send).deadline(2 * DEADLINE).spawn();
    sandbox.wait_for_prompt(1);
    let cut = Instant::now();
    host.cut_network();
    let noticed = wait_for_unreachable(&sandbox, &worker, cut);
    assert!(noticed < NOTICED, "it took {noticed:?}");
    // It asks during the cut, and another daemon starts.
    gate.open();
    sandbox.kill_daemon();
    let _ = wait_for_unreachable(&sandbox, &worker, cut);
    wait_until("the end of the minute", DEADLINE, || (cut.elapsed() >= MINUTE).then_some(()));
    host.restore_network();
    let asked = waiting.output().data();
    assert_eq!(asked["matchedEvent"]["type"], "approval.requested", "{asked}");
    let _ = sandbox.approve(&worker, &asked["requestId"], "allow").data_of("approval.decided");
    wait_until("the end of the turn", DEADLINE, || (sandbox.show(&worker)["state"] == "idle").then_some(()));
    assert_eq!(sandbox.runtime(&worker).pid, runtime.pid);
    sandbox.check();
    let _ = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    host.cut();
    sandbox.finish();
}

#[test]
fn a_half_open_connection_is_noticed_and_loses_nothing() {
    let sandbox = TestSandbox::new();
    let Some(host) = SshHost::start_in_network(&sandbox) else { return };
    sandbox.init();
    let worker = sandbox.start_on("there");
    let gate = sandbox.gate("turn");
    let accepted = sandbox.send_no_wait(&worker, &format!("!say begun\n{}\n!say done", gate.directive()));
    sandbox.wait_for_prompt(1);
    let lost = Instant::now();
    host.lose_packets();
    let noticed = wait_for_unreachable(&sandbox, &worker, lost);
    assert!(noticed < NOTICED, "it took {noticed:?}");
    gate.open();
    host.find_packets();
    assert_eq!(sandbox.turn_end(&accepted)["type"], "turn.completed");
    assert_eq!(sandbox.send(&worker, "again")["assistantText"], "again");
    let _ = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    host.cut();
    sandbox.finish();
}

/// Streams over a network that is bad in this way, and that ends the connections in the middle.
fn stream_over(worsen: impl FnOnce(&SshHost), cut: impl FnOnce(&SshHost)) {
    let mut sandbox = TestSandbox::new();
    let Some(host) = SshHost::start_in_network(&sandbox) else { return };
    let fast = sandbox.test_agent("fast-agent", &[]);
    sandbox.launcher("demo", fast);
    sandbox.init();
    let worker = sandbox.start_on("there");
    worsen(&host);
    let accepted = sandbox.send_no_wait(&worker, "!stream 20000");
    wait_until("half of the events", DEADLINE, || (sandbox.records().0 >= 10_000).then_some(()));
    cut(&host);
    assert_eq!(sandbox.turn_end(&accepted)["type"], "turn.completed");
    let (all, distinct, highest) = sandbox.records();
    assert!(all == distinct && all == highest && all > 20_000, "{all} {distinct} {highest}");
    let _ = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    host.cut();
    sandbox.finish();
}

#[test]
fn a_slow_network_loses_no_event() {
    stream_over(|host| host.slow_down_network("4mbit"), SshHost::cut);
}

#[test]
fn a_network_that_loses_five_percent_of_all_packets_loses_no_event() {
    let cut = |host: &SshHost| {
        host.cut();
        assert!(host.lost_packets() > 0, "no packet was lost");
    };
    stream_over(|host| host.lose_some_packets(5), cut);
}

#[test]
fn a_connection_that_stands_still_for_half_a_minute_is_replaced_and_loses_nothing() {
    let late = |host: &SshHost| {
        let begun = Instant::now();
        host.hang();
        // Another connection takes its place before. What the old one had is late.
        wait_until("half a minute", DEADLINE, || (begun.elapsed() >= MINUTE / 2).then_some(()));
        host.go_on();
    };
    stream_over(|_| {}, late);
}

#[test]
fn a_host_that_comes_back_during_an_accepted_restart_has_one_runtime() {
    let sandbox = TestSandbox::new();
    let Some(host) = SshHost::start_in_network(&sandbox) else { return };
    sandbox.init();
    let worker = sandbox.start_on("there");
    let touched = sandbox.file_name("touched");
    let accepted = sandbox.send_no_wait(&worker, &format!("!touch {touched}\n!sleep 600000"));
    wait_until("the turn", DEADLINE, || fs::exists(&touched).unwrap().then_some(()));
    let first = sandbox.runtime(&worker);
    let cut = Instant::now();
    host.cut_network();
    let _ = wait_for_unreachable(&sandbox, &worker, cut);
    // Without the flag, there is no second runtime before the end of the first one is proved.
    let plain = sandbox.subagent(&["worker", "restart", &worker, "--force"]).deadline(2 * DEADLINE).run();
    assert!(!plain.status.success(), "{plain}");
    let restart = ["worker", "restart", &worker, "--force", "--accept-duplicate"];
    let restarting = sandbox.subagent(&restart).deadline(DEADLINE).spawn();
    assert_eq!(sandbox.turn_end(&accepted)["type"], "turn.canceled");
    assert!(first.lives());
    host.restore_network();
    let _ = restarting.output().data_of("worker.restarted");
    assert_eq!(sandbox.send(&worker, "again")["assistantText"], "again");
    wait_until("the end of the first runtime", DEADLINE, || (!first.lives()).then_some(()));
    let runtimes = || sandbox.processes().into_iter().filter(|one| one.name == "subagent-runtim").count();
    assert_eq!(runtimes(), 1);
    assert_eq!(fs::read_to_string(&touched).unwrap().lines().count(), 1);
    let _ = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    host.cut();
    sandbox.finish();
}
