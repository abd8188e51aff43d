//! A process stopped by a signal has not died: everything continues once it is resumed, and nothing
//! is reported as lost.

use std::collections::BTreeMap;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use subagent_tests::harness::{Random, TestSandbox, say, times, wait_until};

use super::a_moment;
use super::victims::Victim;

const WORKERS: usize = 4;
/// How often each is stopped.
const STOPS: [(Victim, usize); 4] =
    [(Victim::Daemon, 8), (Victim::Runtime, 8), (Victim::Guard, 8), (Victim::Agent, 8)];
/// Maximum duration of a stop.
const MILLIS: u64 = 300;

#[test]
fn nothing_is_lost_that_was_only_stopped() {
    let mut random = Random::announced();
    let mut victims = Vec::new();
    for (victim, count) in STOPS {
        victims.extend(std::iter::repeat_n(victim, times(count)));
    }
    random.shuffle(&mut victims);
    let sandbox = TestSandbox::new();
    sandbox.recorder().knows_all_decisions();
    sandbox.init();
    let workers: Vec<String> = (0..WORKERS).map(|_| sandbox.start("demo")).collect();
    let lookout = sandbox.lookout();
    let over = AtomicBool::new(false);
    let mut turns = 0;
    let mut stopped: BTreeMap<Victim, usize> = BTreeMap::new();
    thread::scope(|scope| {
        let managers: Vec<_> = workers
            .iter()
            .enumerate()
            .map(|(index, worker)| {
                let (sandbox, over) = (&sandbox, &over);
                scope.spawn(move || manage(sandbox, worker, index, over))
            })
            .collect();
        for victim in &victims {
            let found = wait_until("something to stop", Duration::from_secs(30), || {
                let broken = managers.iter().any(thread::ScopedJoinHandle::is_finished);
                let found = if broken { Vec::new() } else { victim.find(&sandbox, &mut random) };
                (broken || !found.is_empty()).then_some(found)
            });
            found.iter().for_each(|process| process.signal(Signal::SIGSTOP));
            a_moment(&mut random, MILLIS);
            found.iter().for_each(|process| process.signal(Signal::SIGCONT));
            *stopped.entry(*victim).or_default() += found.len();
            a_moment(&mut random, 50);
        }
        over.store(true, Ordering::Relaxed);
        for manager in managers {
            turns += manager.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        }
    });
    for worker in &workers {
        let lost = ["worker.lost", "turn.failed", "approval.lost"].map(Value::from);
        let events = sandbox.events(worker);
        assert!(events.iter().all(|event| !lost.contains(&event["type"])), "{events:#?}");
    }
    sandbox.check();
    let _ = lookout.all_well();
    sandbox.finish();
    let count = |victim| stopped.get(&victim).copied().unwrap_or(0);
    say(&format!(
        "faults: daemon stopped and continued {} times, runtime {}, guard {}, agent {}; {turns} turns, all completed",
        count(Victim::Daemon),
        count(Victim::Runtime),
        count(Victim::Guard),
        count(Victim::Agent)
    ));
}

fn manage(sandbox: &TestSandbox, worker: &str, index: usize, over: &AtomicBool) -> usize {
    let mut turns = 0;
    while !over.load(Ordering::Relaxed) {
        let file = format!("touched-{index}-{turns}");
        let ask = if turns % 3 == 2 { "!ask execute it" } else { "" };
        let prompt =
            format!("!chunks 10 text\n!touch {}\n{ask}\n!sleep 20\n!stream 50", sandbox.file_name(&file));
        let end = sandbox.manage(worker, &format!("stops-{index}-{turns}"), &prompt);
        assert_eq!(end["type"], "turn.completed", "{end}");
        assert_eq!(fs::read_to_string(sandbox.file(&file)).unwrap().lines().count(), 1);
        turns += 1;
    }
    turns
}

#[test]
fn a_runtime_that_hangs_for_long_is_unresponsive_and_can_be_stopped_for_good() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let gate = sandbox.gate("turn");
    let accepted = sandbox.send_no_wait(&worker, &format!("!say begun\n{}\n!say done", gate.directive()));
    let _ = sandbox.wait_after(&worker, &accepted["acceptedEventId"], "progress.message");
    let runtime = sandbox.runtime(&worker);
    let lookout = sandbox.lookout();
    runtime.signal(Signal::SIGSTOP);
    // The daemon gets no answer, and reports what it knows.
    let cancel = sandbox.subagent(&["cancel", "--worker-id", &worker]).spawn();
    let shown = wait_until("the runtime to be unresponsive", Duration::from_secs(20), || {
        Some(sandbox.show(&worker)).filter(|shown| shown["unresponsive"] == true)
    });
    assert_eq!((&shown["state"], &shown["runtimePid"]), (&json!("canceling"), &json!(runtime.pid)));
    runtime.signal(Signal::SIGCONT);
    assert_eq!(cancel.output().data_of("turn.canceled")["turnId"], accepted["turnId"]);
    gate.open();
    assert_eq!(sandbox.send(&worker, "next")["assistantText"], "next");
    // A stop does not wait for it forever.
    let runtime = sandbox.runtime(&worker);
    let guard = sandbox.guard(&runtime);
    runtime.signal(Signal::SIGSTOP);
    sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    assert!(!runtime.lives() && !guard.lives());
    let _ = lookout.all_well();
    sandbox.finish();
}

#[test]
fn a_guard_that_was_stopped_when_its_runtime_died_does_its_duty_as_soon_as_it_can() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let _ = sandbox.send(&worker, "!spawn daemon\n!spawn wipe-env\n!spawn ignore-term");
    let runtime = sandbox.runtime(&worker);
    let guard = sandbox.guard(&runtime);
    let left = || {
        let all = sandbox.processes().into_iter();
        all.filter(|process| process.command_line().contains("--spawned")).count()
    };
    assert_eq!(left(), 3);
    guard.signal(Signal::SIGSTOP);
    sandbox.kill(&runtime);
    assert_eq!(left(), 3, "only their guard may end them");
    guard.signal(Signal::SIGCONT);
    wait_until("the guard and its processes to be gone", Duration::from_secs(5), || {
        (!guard.lives() && left() == 0).then_some(())
    });
    assert_eq!(sandbox.send(&worker, "next")["assistantText"], "next");
    sandbox.finish();
}

#[test]
fn a_command_that_was_stopped_gives_its_result_afterwards() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let gate = sandbox.gate("turn");
    let sending = sandbox.sending(&worker, &format!("!say begun\n{}\n!say done", gate.directive())).spawn();
    let follower = sandbox.follow(&worker);
    follower.wait_line("the beginning", |line| line.contains("\"begun\"").then_some(()));
    for command in [&sending, &follower] {
        command.signal(Signal::SIGSTOP);
    }
    gate.open();
    wait_until("the end of the turn", Duration::from_secs(10), || {
        (sandbox.show(&worker)["state"] == "idle").then_some(())
    });
    for command in [&sending, &follower] {
        command.signal(Signal::SIGCONT);
    }
    assert_eq!(sending.output().data_of("turn.waited")["assistantText"], "begundone");
    follower.wait_line("the end", |line| line.contains("\"turn.completed\"").then_some(()));
    let _ = follower.kill();
    sandbox.finish();
}
