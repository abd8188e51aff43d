//! A daemon that dies while tasks run restarts without a command; one that ended in order does not.
//! Between the death and the awaited result no test uses the command line, which would start a
//! daemon.

use std::fs;
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::json;
use subagent_tests::harness::process::Process;
use subagent_tests::harness::{Gate, TestSandbox, wait_until};

/// Time limit for a daemon to restart and report pending results.
const SOON: Duration = Duration::from_secs(40);

/// A parent with a background task whose turn waits at the gate.
struct BackgroundTaskFixture {
    sandbox: TestSandbox,
    root: String,
    gate: Gate,
}

fn world(sandbox: TestSandbox) -> BackgroundTaskFixture {
    world_of(sandbox, 1)
}

fn world_of(mut sandbox: TestSandbox, tasks: usize) -> BackgroundTaskFixture {
    let root = sandbox.delegating(&json!(true), &[]);
    let gate = sandbox.gate("child");
    let begun = sandbox.file_name("begun");
    let prompt = format!("!touch {begun}\n{}", gate.directive());
    let gives: Vec<String> = (0..tasks)
        .map(|number| {
            sandbox.gives(&sandbox.task_file("nested", &format!("t{number}"), "background", &prompt))
        })
        .collect();
    let _ = sandbox.send(&root, &gives.join("\n"));
    wait_until("the turns of the tasks", SOON, || (sandbox.touches("begun") == tasks).then_some(()));
    BackgroundTaskFixture { sandbox, root, gate }
}

impl BackgroundTaskFixture {
    /// Waits until the parent's journal shows that its agent answered the messages about the ends
    /// of this many tasks.
    fn heard(&self, tasks: usize) {
        let journal = self.sandbox.state_dir().join("runtimes").join(&self.root).join("1.journal");
        wait_until("the parent to be notified", SOON, || {
            let text = fs::read_to_string(&journal).ok()?;
            (0..tasks).all(|number| text.contains(&format!("[Subagent 't{number}'"))).then_some(())
        });
    }

    /// Waits until the log of every worker contains this line. Returns the number of workers.
    fn all_noted(&self, line: &str) -> usize {
        wait_until(line, SOON, || {
            let noted: Vec<bool> = self
                .logs()
                .iter()
                .map(|log| fs::read_to_string(log).unwrap_or_default().contains(line))
                .collect();
            noted.iter().all(|noted| *noted).then_some(noted.len())
        })
    }

    fn logs(&self) -> Vec<std::path::PathBuf> {
        let folder = fs::read_dir(self.sandbox.state_dir().join("runtimes")).unwrap();
        let files = folder.map(|entry| entry.unwrap().path());
        let folders = files.filter(|path| path.is_dir());
        folders.map(|folder| folder.with_extension("log")).collect()
    }
}

fn parents(process: &Process) -> Vec<i32> {
    std::iter::successors(Some(process.parent), |pid| Process::find(*pid).map(|above| above.parent))
        .take_while(|pid| *pid > 1)
        .collect()
}

#[test]
fn a_daemon_that_died_comes_back_and_notifies_the_parent_although_no_command_is_typed() {
    let world = world(TestSandbox::new());
    let before = world.sandbox.daemon_info().unwrap();
    world.sandbox.kill_daemon();
    world.gate.open();
    world.heard(1);
    let after = world.sandbox.daemon_info().unwrap();
    assert!(after.generation > before.generation && after.mode == "background", "{after:?}");
    // It is not a descendant of the runtime that started it, which would end it with its agent.
    let daemon = world.sandbox.find_daemon().unwrap();
    let runtimes = [world.sandbox.runtime(&world.root).pid];
    assert!(!parents(&daemon).iter().any(|pid| runtimes.contains(pid)), "{daemon:?}");
    world.sandbox.kill(&world.sandbox.runtime(&world.root));
    assert!(daemon.lives());
    world.sandbox.finish();
}

#[test]
fn of_many_that_notice_one_starts_a_daemon() {
    let world = world_of(TestSandbox::new(), 5);
    let before = world.sandbox.daemon_info().unwrap();
    world.sandbox.kill_daemon();
    world.gate.open();
    world.heard(5);
    let noted = world.logs().into_iter().filter(|log| {
        fs::read_to_string(log).unwrap_or_default().contains("the daemon died; it is started again")
    });
    assert_eq!(noted.count(), 1);
    assert_eq!(world.sandbox.daemon_info().unwrap().generation, before.generation + 1);
    world.sandbox.finish();
}

#[test]
fn after_an_end_in_order_no_daemon_comes_back() {
    let world = world(TestSandbox::new());
    world.sandbox.run(&["daemon", "stop"]).data_of("daemon.stopped");
    assert_eq!(world.all_noted("no daemon is started again: it ended in order"), 2);
    world.gate.open();
    assert!(world.sandbox.find_daemon().is_none());
    world.sandbox.run(&["worker", "list"]).data_of("worker.listed");
    world.heard(1);
    world.sandbox.finish();
}

#[test]
fn a_daemon_that_is_killed_while_it_ends_does_not_come_back() {
    let mut sandbox = TestSandbox::new();
    let once = sandbox.file("reached");
    sandbox.set_env("SUBAGENT_FAILPOINTS", "announcement.after_ending=abort");
    sandbox.set_env("SUBAGENT_FAILPOINTS_ONCE", &once);
    let world = world(sandbox);
    let _ = world.sandbox.run(&["daemon", "stop"]);
    assert!(once.exists());
    assert_eq!(world.all_noted("no daemon is started again: it ended in order"), 2);
    assert!(world.sandbox.find_daemon().is_none());
    world.gate.open();
    world.sandbox.finish();
}

#[test]
fn after_a_stop_that_finds_no_daemon_none_comes_back() {
    let world = world(TestSandbox::new());
    // Their runtimes check only when they continue.
    let mut runtimes = world.sandbox.processes();
    runtimes.retain(|process| process.name.starts_with("subagent-run"));
    assert_eq!(runtimes.len(), 2);
    runtimes.iter().for_each(|runtime| runtime.signal(Signal::SIGSTOP));
    world.sandbox.kill_daemon();
    let stopped = world.sandbox.run(&["daemon", "stop"]).data_of("daemon.stopped");
    assert_eq!(stopped["reason"], "NOT_RUNNING");
    runtimes.iter().for_each(|runtime| runtime.signal(Signal::SIGCONT));
    assert_eq!(world.all_noted("no daemon is started again: it ended in order"), 2);
    assert!(world.sandbox.find_daemon().is_none());
    world.gate.open();
    world.sandbox.finish();
}

#[test]
fn where_no_daemon_may_be_started_by_itself_none_comes_back() {
    let mut sandbox = TestSandbox::new();
    sandbox.set_env("SUBAGENT_NO_AUTOSTART", "1");
    sandbox.run(&["daemon", "start"]).data_of("daemon.started");
    let world = world(sandbox);
    world.sandbox.kill_daemon();
    world.gate.open();
    // A check by a runtime would write a line.
    let begin = std::time::Instant::now();
    wait_until("longer than the time to the first check", SOON, || {
        (begin.elapsed() > Duration::from_secs(3)).then_some(())
    });
    assert!(world.sandbox.find_daemon().is_none());
    world.sandbox.run(&["daemon", "start"]).data_of("daemon.started");
    world.heard(1);
    world.sandbox.finish();
}

#[test]
fn one_that_cannot_start_is_noted_and_comes_back_with_a_command_when_it_can() {
    let world = world(TestSandbox::new());
    let state_dir = world.sandbox.state_dir();
    let (lock, aside) = (state_dir.join("daemon.lock"), state_dir.join("aside"));
    world.sandbox.kill_daemon();
    fs::rename(&lock, &aside).unwrap();
    fs::create_dir(&lock).unwrap();
    wait_until("a note", SOON, || {
        let mut logs = world.logs().into_iter().map(|log| fs::read_to_string(log).unwrap_or_default());
        logs.any(|log| log.contains("the daemon cannot be started again: DAEMON_START_FAILED: "))
            .then_some(())
    });
    assert!(world.sandbox.find_daemon().is_none());
    fs::remove_dir(&lock).unwrap();
    fs::rename(&aside, &lock).unwrap();
    world.gate.open();
    world.sandbox.run(&["worker", "list"]).data_of("worker.listed");
    world.heard(1);
    world.sandbox.finish();
}
