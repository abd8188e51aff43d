//! Idle connections that load the daemon: the owner is still answered, and memory
//! is bounded and released.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::sys::resource::{Resource, getrlimit};
use subagent_tests::harness::process::Process;
use subagent_tests::harness::{Running, TestSandbox, say, wait_until};

/// Time limit for the owner's requests. A silent connection is closed after 30 s; nothing
/// here waits for that.
const SOON: Duration = Duration::from_secs(20);
const DEADLINE: Duration = Duration::from_secs(60);
const MIB: u64 = 1024;

/// The behavior of a crowd of connections.
struct Crowd<'a> {
    count: usize,
    head: &'a str,
    body: usize,
}

impl Crowd<'_> {
    fn args(&self, sandbox: &TestSandbox) -> Vec<String> {
        let socket = sandbox.daemon_info().unwrap().socket;
        let number = |number: usize| number.to_string();
        vec![
            "crowd".to_owned(),
            socket.to_str().unwrap().to_owned(),
            number(self.count),
            self.head.to_owned(),
            number(self.body),
            sandbox.file_name("opened"),
            sandbox.file_name("gate"),
        ]
    }

    /// Starts it as a process of the owner.
    fn of_owner(&self, sandbox: &TestSandbox) -> Running {
        let running = sandbox.command("stranger").args(self.args(sandbox)).deadline(DEADLINE * 5).spawn();
        opened(sandbox);
        running
    }

    /// Starts it as a process below this worker's agent that stays after the turn.
    fn below(&self, sandbox: &TestSandbox, worker: &str) {
        let args = self.args(sandbox);
        let args = shell_words::join(args.iter().map(String::as_str));
        let program = sandbox.executable("stranger");
        let sent = sandbox.send(worker, &format!("!shell {program} {args} >/dev/null 2>&1 </dev/null &"));
        assert!(!sent["assistantText"].as_str().unwrap().contains("error"), "{sent}");
        opened(sandbox);
    }
}

fn opened(sandbox: &TestSandbox) {
    let file = sandbox.file("opened");
    wait_until("the connections to be open", DEADLINE, || file.exists().then_some(()));
}

fn resident_kib(process: &Process) -> u64 {
    let status = fs::read_to_string(Path::new("/proc").join(process.pid.to_string()).join("status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// A sandbox whose daemon has this many descriptors.
fn with_descriptors(limit: u32) -> (TestSandbox, String) {
    let sandbox = TestSandbox::new();
    let program = sandbox.executable("subagent");
    let line = format!("ulimit -n {limit} && exec {program} controller init --json");
    let output = sandbox.command("sh").args(["-c", &line]).run();
    assert!(output.status.success(), "{output}");
    let worker = sandbox.start("demo");
    (sandbox, worker)
}

/// Whether this user may have that many descriptors.
fn may_have(limit: u64) -> bool {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    if hard < limit {
        say(&format!("SKIPPED, NOTHING WAS TESTED: {limit} descriptors are needed, {hard} are allowed"));
    }
    hard >= limit
}

/// The owner looks at the worker and stops it in time.
fn is_obeyed(sandbox: TestSandbox, worker: &str) {
    let begun = Instant::now();
    let listed = sandbox.subagent(&["worker", "list"]).deadline(DEADLINE).run();
    assert!(listed.status.success(), "{listed}");
    let shown = sandbox.show(worker);
    assert_eq!(shown["state"], "idle", "{shown}");
    let stopped = sandbox.subagent(&["worker", "stop", worker]).deadline(DEADLINE).run();
    assert!(stopped.status.success(), "{stopped}");
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    sandbox.finish();
}

#[test]
fn silent_connections_from_below_a_worker_do_not_starve_its_owner() {
    for head in ["", "GET /v1/daemon HTTP/1.1\\nHost: d\\nX-Slow: "] {
        let (sandbox, worker) = with_descriptors(1024);
        Crowd { count: 1000, head, body: 0 }.below(&sandbox, &worker);
        is_obeyed(sandbox, &worker);
    }
}

#[test]
fn fifteen_thousand_silent_connections_from_below_a_worker_do_not_starve_its_owner() {
    if !may_have(20_000) {
        return;
    }
    let (sandbox, worker) = with_descriptors(20_000);
    Crowd { count: 15_000, head: "", body: 0 }.below(&sandbox, &worker);
    is_obeyed(sandbox, &worker);
}

#[test]
fn silent_connections_of_the_owner_make_room_for_new_ones() {
    let (sandbox, worker) = with_descriptors(1024);
    let crowd = Crowd { count: 1000, head: "", body: 0 }.of_owner(&sandbox);
    let begun = Instant::now();
    assert_eq!(sandbox.send(&worker, "hello")["assistantText"], "hello");
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    fs::write(sandbox.file("gate"), "").unwrap();
    assert!(crowd.output().status.success());
    sandbox.finish();
}

#[test]
fn followers_that_never_read_cost_little() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let _ = sandbox.send(&worker, "!flood 20000 1000");
    let daemon = sandbox.daemon();
    let before = daemon.peak_memory_kib();
    let head = format!("GET /v1/workers/{worker}/events?follow=1 HTTP/1.1\\nHost: d\\n\\n");
    let crowd = Crowd { count: 300, head: &head, body: 0 }.of_owner(&sandbox);
    let after = daemon.peak_memory_kib();
    assert!(after < before + 64 * MIB, "{before} KiB became {after} KiB");
    assert!(sandbox.events(&worker).len() > 20_000 / 100, "a follower that reads must get everything");
    let begun = Instant::now();
    assert_eq!(sandbox.send(&worker, "hello")["assistantText"], "hello");
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    fs::write(sandbox.file("gate"), "").unwrap();
    assert!(crowd.output().status.success());
    sandbox.finish();
}

#[test]
fn unfinished_bodies_are_bounded_and_given_back() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let daemon = sandbox.daemon();
    let before = resident_kib(&daemon);
    let length = 40 * 1024 * 1024;
    let head = format!("POST /v1/workers HTTP/1.1\\nHost: d\\nContent-Length: {length}\\n\\n");
    let crowd = Crowd { count: 12, head: &head, body: length - 1 }.of_owner(&sandbox);
    let held = daemon.peak_memory_kib();
    assert!(held < before + 224 * MIB, "{before} KiB became {held} KiB");
    // Small requests do not wait for large ones.
    let begun = Instant::now();
    assert_eq!(sandbox.send(&worker, "hello")["assistantText"], "hello");
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    fs::write(sandbox.file("gate"), "").unwrap();
    assert!(crowd.output().status.success());
    wait_until("the memory to be released", DEADLINE, || {
        (resident_kib(&daemon) < before + 32 * MIB).then_some(())
    });
    sandbox.finish();
}
