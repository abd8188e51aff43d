//! Managers and watchers that go on with their work while daemon, runtimes, guards and agents are killed under them.

use std::collections::BTreeMap;
use std::fs;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::Value;
use subagent_tests::harness::{Random, Sandbox, times, wait_until};

use super::a_moment;
use super::victims::Victim;

/// Each with a manager of its own.
const WORKERS: usize = 8;
/// So many of them are watched.
const WATCHERS: usize = 2;
/// How often each is killed.
const KILLS: [(Victim, usize); 5] = [
    (Victim::Daemon, 200),
    (Victim::Runtime, 100),
    (Victim::Guard, 50),
    (Victim::Agent, 100),
    (Victim::DaemonAndRuntime, 50),
];
/// What an agent leaves behind that its guard must end, each in one of so many turns. The chain of forks is rare,
/// because each costs a good part of a core.
const LEFT: [&str; 24] = [
    "!spawn daemon",
    "",
    "!spawn ignore-term",
    "",
    "!spawn wipe-env",
    "",
    "!spawn hold-pipes",
    "",
    "",
    "!spawn forker",
    "",
    "",
    "!spawn daemon",
    "",
    "!spawn wipe-env",
    "",
    "!spawn hold-pipes",
    "",
    "!spawn ignore-term",
    "",
    "",
    "",
    "",
    "",
];

/// What a manager did: for each of its turns the file that it touches, and whether it was completed.
type Turns = BTreeMap<String, bool>;

fn manage(sandbox: &Sandbox, worker: &str, index: usize, over: &AtomicBool) -> Turns {
    let mut turns = Turns::new();
    for number in 0.. {
        if over.load(Ordering::Relaxed) {
            break;
        }
        let (key, file) = (format!("manager-{index}-{number}"), format!("touched-{index}-{number}"));
        let touched = sandbox.file_name(&file);
        let ask = if number % 3 == 2 { "!ask execute it" } else { "" };
        let big = if number % 4 == 1 { "!flood 20 4096" } else { "" };
        let left = LEFT[(number + index) % LEFT.len()];
        let prompt = format!(
            "!chunks 10 text\n!touch {touched}\n{left}\n!tool execute make\n{ask}\n{big}\n!sleep 20\n!stream 100\n!say done"
        );
        let end = sandbox.manage(worker, &key, &prompt);
        let completed = end["type"] == "turn.completed";
        // The last one: its runtime was killed before it could listen, so that the prompt was never sent.
        let codes = ["RUNTIME_LOST", "BACKEND_UNAVAILABLE", "BACKEND_RUNTIME_ERROR"].map(Value::from);
        assert!(completed || codes.contains(&end["data"]["error"]["code"]), "{end}");
        turns.insert(file, completed);
    }
    turns
}

/// Follows a worker, is killed again and again, and goes on behind the last line that it has printed.
fn watch(sandbox: &Sandbox, worker: &str, mut random: Random, over: &AtomicBool, killed: &AtomicUsize) {
    let mut printed: Vec<String> = Vec::new();
    let learn = |stdout: &str, printed: &mut Vec<String>| {
        // A line that was cut off was not printed.
        let lines = stdout.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        let events = lines.filter_map(|line| serde_json::from_str::<Value>(line).ok());
        printed.extend(events.filter_map(|event| event["eventId"].as_str().map(str::to_owned)));
    };
    let from = |printed: &[String]| match printed.last() {
        Some(id) => vec!["--from-event-id".to_owned(), id.clone()],
        None => Vec::new(),
    };
    while !over.load(Ordering::Relaxed) {
        let follow = ["watch", "--worker-id", worker, "--follow", "--timeout-seconds", "0"];
        let watching = sandbox.command("subagent").args(follow).args(from(&printed)).spawn();
        a_moment(&mut random, 2000);
        learn(&watching.kill(), &mut printed);
        killed.fetch_add(1, Ordering::Relaxed);
    }
    let rest = sandbox.command("subagent").args(["watch", "--worker-id", worker]).args(from(&printed)).run();
    learn(rest.text(), &mut printed);
    let all = sandbox.events(worker);
    let mut all = all.iter().filter_map(|event| event["eventId"].as_str());
    // Something may have come since.
    for id in &printed {
        assert_eq!(all.next(), Some(id.as_str()), "a watcher that went on by its cursor missed something");
    }
}

#[test]
fn nothing_is_lost_or_done_twice_whatever_is_killed() {
    let mut random = Random::announced();
    let mut victims = Vec::new();
    for (victim, count) in KILLS {
        victims.extend(std::iter::repeat_n(victim, times(count)));
    }
    random.shuffle(&mut victims);
    let sandbox = Sandbox::new();
    sandbox.recorder().knows_all_decisions();
    sandbox.init();
    let workers: Vec<String> = (0..WORKERS).map(|_| sandbox.start("demo")).collect();
    let lookout = sandbox.lookout();
    let (over, watchers) = (AtomicBool::new(false), AtomicUsize::new(0));
    let mut turns = Turns::new();
    let mut killed: BTreeMap<Victim, usize> = BTreeMap::new();
    let begun = Instant::now();
    thread::scope(|scope| {
        let managers: Vec<_> = workers
            .iter()
            .enumerate()
            .map(|(index, worker)| {
                let (sandbox, over) = (&sandbox, &over);
                scope.spawn(move || manage(sandbox, worker, index, over))
            })
            .collect();
        let watching: Vec<_> = workers[..WATCHERS]
            .iter()
            .map(|worker| {
                let (sandbox, over, watchers) = (&sandbox, &over, &watchers);
                let random = Random::new(random.number());
                scope.spawn(move || watch(sandbox, worker, random, over, watchers))
            })
            .collect();
        for (index, victim) in victims.iter().enumerate() {
            let what = format!("a {victim:?} for kill {index}");
            let found = wait_until(&what, Duration::from_secs(30), || {
                let broken = managers.iter().any(thread::ScopedJoinHandle::is_finished)
                    || watching.iter().any(thread::ScopedJoinHandle::is_finished);
                if broken {
                    Some(Vec::new())
                } else {
                    Some(victim.find(&sandbox, &mut random)).filter(|found| !found.is_empty())
                }
            });
            if found.is_empty() {
                // One of them has panicked: it says why.
                break;
            }
            found.iter().for_each(|process| process.signal(Signal::SIGKILL));
            *killed.entry(*victim).or_default() += 1;
            a_moment(&mut random, 100);
        }
        over.store(true, Ordering::Relaxed);
        for manager in managers {
            turns.extend(manager.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        for watcher in watching {
            watcher.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        }
    });
    let took = begun.elapsed();
    for (victim, count) in KILLS {
        assert_eq!(killed.get(&victim), Some(&times(count)), "{victim:?}");
    }
    let completed = turns.values().filter(|completed| **completed).count();
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
    sandbox.check();
    let seen = lookout.all_well();
    sandbox.finish();
    let count = |victim| killed.get(&victim).copied().unwrap_or(0);
    eprintln!(
        "faults: daemon killed {} times, runtime {}, guard {}, agent {}, daemon and runtime together {}, watchers {}; \
         {} turns of {WORKERS} agents, {completed} completed; {} looks, no process was left for more than {:?}; {took:?}",
        count(Victim::Daemon),
        count(Victim::Runtime),
        count(Victim::Guard),
        count(Victim::Agent),
        count(Victim::DaemonAndRuntime),
        watchers.load(Ordering::Relaxed),
        turns.len(),
        seen.looks,
        seen.longest_stray,
    );
}
