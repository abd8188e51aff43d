//! One daemon per state directory: many concurrent first commands, with any remains of an earlier
//! daemon, and beside one that hangs.

use std::fs;
use std::os::unix::net::UnixListener;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use subagent_tests::harness::{Output, TestSandbox, say, times};

/// Number of concurrent first commands.
pub(crate) const CROWD: usize = 64;
/// Time limit for a command that cannot have a daemon to report that.
const DEADLINE: Duration = Duration::from_secs(60);

/// Runs first commands of every kind at the same time. Returns their outputs.
pub(crate) fn first_commands(sandbox: &TestSandbox) -> Vec<Output> {
    let kinds: [&[&str]; 4] = [
        &["daemon", "start"],
        &["controller", "init"],
        &["controller", "attach", "--takeover"],
        &["controller", "release", "--force"],
    ];
    let running: Vec<_> = (0..CROWD)
        .map(|index| sandbox.subagent(kinds[index % kinds.len()]).deadline(DEADLINE).spawn())
        .collect();
    running.into_iter().map(subagent_tests::harness::Running::output).collect()
}

/// Returns the daemons running here.
pub(crate) fn daemons(sandbox: &TestSandbox) -> Vec<i32> {
    let all = sandbox.processes().into_iter();
    all.filter(|process| process.name == "subagentd").map(|process| process.pid).collect()
}

/// Returns the errors of a crowd that must have started one daemon.
pub(crate) fn more_than_one_daemon(sandbox: &TestSandbox, outputs: &[Output]) -> Vec<String> {
    let mut wrong = Vec::new();
    let daemons = daemons(sandbox);
    if daemons.len() != 1 {
        wrong.push(format!("{} daemons run", daemons.len()));
    }
    let mut pids: Vec<Value> = Vec::new();
    for output in outputs {
        if output.status.success() {
            pids.extend(output.document()["data"].get("pid").cloned());
        } else {
            let error = output.any_error();
            let allowed = ["CONTROLLER_OWNERSHIP_CONFLICT", "CONTROLLER_NOT_FOUND"];
            if !allowed.contains(&error["code"].as_str().unwrap_or_default()) {
                wrong.push(format!("{output}"));
            }
        }
    }
    pids.sort_by_key(Value::to_string);
    pids.dedup();
    if pids.len() != 1 || !daemons.iter().any(|pid| pids.contains(&json!(pid))) {
        wrong.push(format!("commands reported {pids:?}, there are {daemons:?}"));
    }
    wrong
}

#[test]
fn many_first_commands_get_one_daemon() {
    let mut crowds = 0;
    for _ in 0..times(1) {
        let sandbox = TestSandbox::new();
        let outputs = first_commands(&sandbox);
        assert_eq!(more_than_one_daemon(&sandbox, &outputs), Vec::<String>::new());
        assert_eq!(sandbox.daemon_info().unwrap().generation, 1, "a second daemon had been started");
        sandbox.finish();
        crowds += 1;
    }
    say(&format!(
        "faults: {CROWD} first commands at once got one daemon, {crowds} times in an empty state dir"
    ));
}

#[test]
fn many_first_commands_get_one_daemon_in_what_was_left_before_a_reboot() {
    let crowds = times(1);
    (0..crowds).for_each(|_| after_a_reboot());
    say(&format!(
        "faults: {CROWD} first commands at once got one daemon, {crowds} times in what was left before a reboot"
    ));
}

fn after_a_reboot() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let old = sandbox.daemon_info().unwrap();
    let runtime = sandbox.runtime(&worker);
    let guard = sandbox.guard(&runtime);
    sandbox.kill_daemon();
    sandbox.kill(&guard);
    sandbox.kill(&runtime);
    // The daemon's pid was reused; a socket without a listener; locks without holders, one of them
    // with a note; a runtime of another boot.
    let mut info: Value =
        serde_json::from_slice(&fs::read(sandbox.state_dir().join("daemon.json")).unwrap()).unwrap();
    info["process"] = json!({"pid": std::process::id(), "startTime": 1});
    fs::write(sandbox.state_dir().join("daemon.json"), info.to_string()).unwrap();
    let _ = fs::remove_file(&old.socket);
    drop(UnixListener::bind(&old.socket).unwrap());
    for lock in ["daemon.lock", "start.lock"] {
        fs::write(sandbox.state_dir().join(lock), info["process"].to_string()).unwrap();
    }
    let database = rusqlite::Connection::open(sandbox.state_dir().join("state.db")).unwrap();
    database.execute("UPDATE workers SET boot_id = 'an earlier one'", []).unwrap();
    drop(database);
    let outputs = first_commands(&sandbox);
    assert_eq!(more_than_one_daemon(&sandbox, &outputs), Vec::<String>::new());
    assert_eq!(sandbox.daemon_info().unwrap().generation, old.generation + 1);
    let controller = sandbox.run(&["controller", "attach", "--takeover"]).data_of("controller.attached");
    assert!(controller["controllerId"].is_string());
    assert_eq!(sandbox.send(&worker, "still here")["assistantText"], "still here");
    sandbox.finish();
}

#[test]
fn beside_a_daemon_that_hangs_every_command_has_an_error_in_time_and_none_starts_another() {
    let crowds = times(1);
    let longest = (0..crowds).map(|_| beside_one_that_hangs()).max();
    say(&format!(
        "faults: beside a daemon that hangs {CROWD} commands had an error within {:?}, {crowds} times",
        longest.unwrap_or_default()
    ));
}

/// Returns the time until all had their error.
fn beside_one_that_hangs() -> Duration {
    let (sandbox, worker) = TestSandbox::with_worker();
    let daemon = sandbox.daemon();
    daemon.signal(Signal::SIGSTOP);
    let begun = Instant::now();
    let outputs = first_commands(&sandbox);
    let took = begun.elapsed();
    for output in &outputs {
        let error = output.error("DAEMON_UNRESPONSIVE");
        assert_eq!(error["details"]["pid"], daemon.pid, "{output}");
    }
    assert_eq!(daemons(&sandbox), [daemon.pid]);
    daemon.signal(Signal::SIGCONT);
    // Requests may still be carried out: they were accepted before the daemon stopped, or
    // wait in its socket.
    let _ = sandbox.run(&["controller", "attach", "--takeover"]).data_of("controller.attached");
    assert_eq!(sandbox.send(&worker, "and on")["assistantText"], "and on");
    sandbox.finish();
    took
}
