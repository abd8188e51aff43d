//! Managers and watchers continue their work while daemon, runtimes, guards and agents are killed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::Value;
use subagent_tests::harness::process::Process;
use subagent_tests::harness::{Random, SshHost, TestSandbox, say, times, wait_until};

use super::a_moment;
use super::victims::Victim;

/// Number of workers, each with a manager.
const WORKERS: usize = 6;
/// Number of watched workers.
const WATCHERS: usize = 2;
/// How often each is killed while one daemon lives: only then can an outdated
/// statement last too long.
const BELOW_A_DAEMON: &[(Victim, usize)] = &[(Victim::Runtime, 25), (Victim::Guard, 15), (Victim::Agent, 25)];
/// How often the daemon is killed, and the others between its deaths.
const WITH_THE_DAEMON: &[(Victim, usize)] = &[
    (Victim::Daemon, 50),
    (Victim::DaemonAndRuntime, 15),
    (Victim::Runtime, 5),
    (Victim::Guard, 5),
    (Victim::Agent, 5),
];
const OVER_A_STREAM: &[(Victim, usize)] = &[
    (Victim::Stream, 40),
    (Victim::Daemon, 10),
    (Victim::DaemonAndRuntime, 3),
    (Victim::Runtime, 5),
    (Victim::Guard, 3),
    (Victim::Agent, 3),
];
const ON_ANOTHER_MACHINE: &[(Victim, usize)] = &[
    (Victim::Client, 80),
    (Victim::Connection, 60),
    (Victim::Stream, 25),
    (Victim::Daemon, 12),
    (Victim::DaemonAndRuntime, 4),
    (Victim::Runtime, 10),
    (Victim::Guard, 4),
    (Victim::Agent, 5),
];
/// The minimum number of turns that must be open when one of their processes is killed: a
/// turn outlives its daemon.
const HIT_BELOW_A_DAEMON: usize = 10;
const HIT_WITH_THE_DAEMON: usize = 3;
/// The maximum number of further deaths until enough turns were hit.
const MAX_MORE: usize = 100;
/// The longest time that a statement about a worker may be outdated, here and on another machine.
const GRACE: Duration = Duration::from_secs(5);
const FAR_GRACE: Duration = Duration::from_secs(60);
/// Time limit from a signal to the death.
const DEATH: Duration = Duration::from_secs(10);
/// Remains of an agent that its guard must end, each in one of this many turns. The chain of forks
/// is rare, because each uses a large part of a core.
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

/// A manager's turns: for each the file that it touches, and whether it completed.
type ManagerTurns = BTreeMap<String, bool>;

fn manage(
    sandbox: &TestSandbox,
    worker: &str,
    index: usize,
    over: &AtomicBool,
    hit: &AtomicUsize,
) -> ManagerTurns {
    let mut turns = ManagerTurns::new();
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
        // The last one: its runtime was killed before it could listen, so the
        // prompt was never sent.
        let codes = ["RUNTIME_LOST", "BACKEND_UNAVAILABLE", "BACKEND_RUNTIME_ERROR", "PLACEMENT_UNREACHABLE"];
        let codes = codes.map(Value::from);
        assert!(completed || codes.contains(&end["data"]["error"]["code"]), "{end}");
        hit.fetch_add(usize::from(!completed), Ordering::Relaxed);
        turns.insert(file, completed);
    }
    turns
}

/// Follows a worker, is killed repeatedly, and continues after the last printed line.
fn watch(sandbox: &TestSandbox, worker: &str, mut random: Random, over: &AtomicBool, killed: &AtomicUsize) {
    let mut printed: Vec<String> = Vec::new();
    let learn = |stdout: &str, printed: &mut Vec<String>| {
        // An incomplete line does not count as printed.
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
    // More may have arrived since.
    for id in &printed {
        assert_eq!(all.next(), Some(id.as_str()), "a watcher that continued by its cursor missed an event");
    }
}

/// The observed deaths by kind, each process once.
#[derive(Default)]
struct Killed(BTreeMap<Victim, BTreeSet<(i32, u64)>>);

impl Killed {
    /// Kills one of this kind and observes its death, unless an invariant is violated meanwhile.
    fn one(&mut self, victim: Victim, sandbox: &TestSandbox, random: &mut Random, broken: &dyn Fn() -> bool) {
        let what = format!("a {victim:?} to kill");
        let found = wait_until(&what, Duration::from_secs(30), || {
            let found = victim.find(sandbox, random);
            // A process that ends by itself at this moment is not killed.
            let all_live = !found.is_empty() && found.iter().all(Process::lives);
            if broken() { Some(Vec::new()) } else { Some(found).filter(|_| all_live) }
        });
        found.iter().for_each(|process| process.signal(Signal::SIGKILL));
        wait_until(&format!("the death of {found:?}"), DEATH, || {
            (!found.iter().any(Process::lives)).then_some(())
        });
        // If two are killed together, the first stands for both.
        self.0
            .entry(victim)
            .or_default()
            .extend(found.first().map(|process| (process.pid, process.start_time)));
    }

    fn count(&self, victim: Victim) -> usize {
        self.0.get(&victim).map_or(0, BTreeSet::len)
    }
}

#[test]
fn nothing_is_lost_or_done_twice_after_any_kill_below_a_daemon() {
    kill_while_managers_work(TestSandbox::new(), None, BELOW_A_DAEMON, HIT_BELOW_A_DAEMON);
}

#[test]
fn nothing_is_lost_or_done_twice_whenever_the_daemon_is_killed() {
    kill_while_managers_work(TestSandbox::new(), None, WITH_THE_DAEMON, HIT_WITH_THE_DAEMON);
}

#[test]
fn nothing_is_lost_or_done_twice_behind_a_stream_that_is_killed() {
    kill_while_managers_work(TestSandbox::placed(), None, OVER_A_STREAM, HIT_WITH_THE_DAEMON);
}

#[test]
fn nothing_is_lost_or_done_twice_on_a_machine_whose_connections_are_killed() {
    let sandbox = TestSandbox::new();
    let Some(_host) = SshHost::start(&sandbox) else { return };
    kill_while_managers_work(sandbox, Some("there"), ON_ANOTHER_MACHINE, HIT_WITH_THE_DAEMON);
}

/// Kills while workers at this placement have turns.
fn kill_while_managers_work(
    sandbox: TestSandbox,
    place: Option<&str>,
    kills: &[(Victim, usize)],
    hits: usize,
) {
    // A place is dialed again after some seconds if its connections are killed before they begin.
    let grace = if place.is_some() { FAR_GRACE } else { GRACE };
    let mut random = Random::announced();
    sandbox.recorder().knows_all_decisions();
    sandbox.init();
    let workers: Vec<String> = (0..WORKERS)
        .map(|_| place.map_or_else(|| sandbox.start("demo"), |place| sandbox.start_on(place)))
        .collect();
    let lookout = sandbox.lookout_for(grace);
    let (over, watchers, open) = (AtomicBool::new(false), AtomicUsize::new(0), AtomicUsize::new(0));
    let mut turns = ManagerTurns::new();
    let mut killed = Killed::default();
    let begun = Instant::now();
    thread::scope(|scope| {
        let managers: Vec<_> = workers
            .iter()
            .enumerate()
            .map(|(index, worker)| {
                let (sandbox, over, open) = (&sandbox, &over, &open);
                scope.spawn(move || manage(sandbox, worker, index, over, open))
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
        let broken = || {
            managers.iter().any(thread::ScopedJoinHandle::is_finished)
                || watching.iter().any(thread::ScopedJoinHandle::is_finished)
        };
        let daemon = sandbox.daemon();
        let of_kind = |(victim, count): &(Victim, usize)| std::iter::repeat_n(*victim, times(*count));
        let mut victims: Vec<Victim> = kills.iter().flat_map(of_kind).collect();
        random.shuffle(&mut victims);
        for victim in victims {
            // A thread that has panicked prints the reason.
            if broken() {
                break;
            }
            killed.one(victim, &sandbox, &mut random, &broken);
            a_moment(&mut random, 100);
        }
        // On a fast machine few turns are open at a death, so it takes more deaths.
        for _ in 0..MAX_MORE {
            if broken() || open.load(Ordering::Relaxed) >= times(hits) {
                break;
            }
            killed.one(Victim::Runtime, &sandbox, &mut random, &broken);
            a_moment(&mut random, 100);
        }
        let spared =
            kills.iter().all(|(victim, _)| ![Victim::Daemon, Victim::DaemonAndRuntime].contains(victim));
        assert!(!spared || daemon.lives(), "the daemon has ended although it was not killed");
        over.store(true, Ordering::Relaxed);
        for manager in managers {
            turns.extend(manager.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        for watcher in watching {
            watcher.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        }
    });
    let took = begun.elapsed();
    for (victim, count) in kills {
        assert!(killed.count(*victim) >= times(*count), "{victim:?}: {}", killed.count(*victim));
    }
    let completed = turns.values().filter(|completed| **completed).count();
    let hit = turns.len() - completed;
    assert!(completed >= WORKERS, "too few turns were completed");
    assert!(hit >= times(hits), "only {hit} of {} turns were hit", turns.len());
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
    let count = |victim| killed.count(victim);
    say(&format!(
        "faults: daemon killed {} times, runtime {}, guard {}, agent {}, daemon and runtime together {}, streams {}, ssh clients {}, connections {}, watchers {}; \
         {} turns of {WORKERS} agents, {completed} completed, {hit} hit; {} looks, no process was left for more than {:?}; {took:?}",
        count(Victim::Daemon),
        count(Victim::Runtime),
        count(Victim::Guard),
        count(Victim::Agent),
        count(Victim::DaemonAndRuntime),
        count(Victim::Stream),
        count(Victim::Client),
        count(Victim::Connection),
        watchers.load(Ordering::Relaxed),
        turns.len(),
        seen.looks,
        seen.longest_stray,
    ));
}
