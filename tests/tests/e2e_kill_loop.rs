//! Managers that go on with their work while daemon, runtimes, guards and agents are killed under them, at random
//! moments. `SUBAGENT_FAULTS=N` kills N times as often, `SUBAGENT_TEST_SEED` repeats the order of a run.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "all of this file is a test")]

use std::collections::BTreeMap;
use std::fs;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::Value;
use subagent_tests::harness::process::Process;
use subagent_tests::harness::{Random, Sandbox, times, wait_until, wait_while};

/// Each with a manager of its own.
const WORKERS: usize = 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Victim {
    Daemon,
    Runtime,
    Guard,
    Agent,
}

impl Victim {
    fn find(self, sandbox: &Sandbox, random: &mut Random) -> Option<Process> {
        let all = sandbox.processes();
        let named =
            |name: &str| all.iter().filter(|process| process.name == name).cloned().collect::<Vec<_>>();
        let found = match self {
            Self::Daemon => named("subagentd"),
            Self::Runtime => named("subagent-runtim"),
            Self::Guard => named("subagent-guard"),
            Self::Agent => {
                let guards = named("subagent-guard");
                let below = |process: &&Process| guards.iter().any(|guard| guard.pid == process.parent);
                all.iter().filter(below).cloned().collect()
            }
        };
        (!found.is_empty()).then(|| random.pick(&found).clone())
    }
}

/// What a manager did: for each of its turns the file that it touches, and whether it was completed.
type Turns = BTreeMap<String, bool>;

fn manage(sandbox: &Sandbox, worker: &str, index: usize, over: &AtomicBool, sent: &AtomicUsize) -> Turns {
    let mut turns = Turns::new();
    for number in 0.. {
        if over.load(Ordering::Relaxed) {
            break;
        }
        let (key, file) = (format!("manager-{index}-{number}"), format!("touched-{index}-{number}"));
        let touched = sandbox.file_name(&file);
        let ask = if number % 5 == 4 { "!ask execute it\n" } else { "" };
        let prompt = format!("!chunks 20 text\n!touch {touched}\n{ask}!sleep 20\n!stream 200\n!say done");
        let end = sandbox.manage(worker, &key, &prompt);
        let completed = end["type"] == "turn.completed";
        // The last one: its runtime was killed before it could listen, so that the prompt was never sent.
        let codes = ["RUNTIME_LOST", "BACKEND_UNAVAILABLE", "BACKEND_RUNTIME_ERROR"].map(Value::from);
        assert!(completed || codes.contains(&end["data"]["error"]["code"]), "{end}");
        turns.insert(file, completed);
        sent.fetch_add(1, Ordering::Relaxed);
    }
    turns
}

#[test]
fn nothing_is_lost_or_done_twice_whatever_is_killed() {
    let mut random = Random::announced();
    let mut victims = Vec::new();
    for (victim, count) in
        [(Victim::Daemon, 40), (Victim::Runtime, 30), (Victim::Guard, 15), (Victim::Agent, 15)]
    {
        victims.extend(std::iter::repeat_n(victim, times(count)));
    }
    random.shuffle(&mut victims);
    let sandbox = Sandbox::new();
    sandbox.init();
    let workers: Vec<String> = (0..WORKERS).map(|_| sandbox.start("demo")).collect();
    let (over, sent) = (AtomicBool::new(false), AtomicUsize::new(0));
    let mut turns = Turns::new();
    thread::scope(|scope| {
        let managers: Vec<_> = workers
            .iter()
            .enumerate()
            .map(|(index, worker)| {
                let (sandbox, over, sent) = (&sandbox, &over, &sent);
                scope.spawn(move || manage(sandbox, worker, index, over, sent))
            })
            .collect();
        let follower = sandbox.follow(&workers[0]);
        for (index, victim) in victims.iter().enumerate() {
            let what = format!("a {victim:?} for kill {index}");
            let process = wait_until(&what, Duration::from_secs(30), || victim.find(&sandbox, &mut random));
            process.signal(Signal::SIGKILL);
            if managers.iter().any(thread::ScopedJoinHandle::is_finished) {
                break;
            }
            // No waiting for anything: the moment of the next kill.
            let pause = Duration::from_millis(random.below(120));
            let _ = wait_while(pause, || Some(()));
        }
        over.store(true, Ordering::Relaxed);
        for manager in managers {
            match manager.join() {
                Ok(done) => turns.extend(done),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        let _ = follower.kill();
    });
    let completed = turns.values().filter(|completed| **completed).count();
    eprintln!("{} kills, {} turns, {completed} completed", victims.len(), sent.load(Ordering::Relaxed));
    assert!(completed >= WORKERS, "hardly anything was completed");
    for (file, completed) in &turns {
        let times = fs::read_to_string(sandbox.file(file)).unwrap_or_default().lines().count();
        assert!(
            if *completed { times == 1 } else { times <= 1 },
            "{file}: executed {times} times, {completed}"
        );
    }
    for worker in &workers {
        assert_eq!(sandbox.send(worker, "at last")["assistantText"], "at last");
    }
    sandbox.finish();
}
