//! A follower that is stopped during a flood must not slow it down or use more memory,
//! and gets all events.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use rusqlite::Connection;
use subagent_tests::harness::wait_until;
use subagent_tests::measure::{Row, Unit, private};

use crate::Bench;
use crate::follower::{Follower, is};
use crate::world::{BenchWorld, idle_for};

/// Time limit for the follower to read everything.
const BOUND: Duration = Duration::from_secs(900);
/// Number of events followed before the follower is stopped.
const FIRST: f64 = 1000.0;

/// A flood of one worker without earlier ones.
struct Flood {
    /// Time until its last event was committed, in seconds. The agent is ahead of that.
    took: f64,
    /// Number of its stored events.
    stored: f64,
}

/// A flood with a follower that was stopped.
struct Stopped {
    follower: Follower<()>,
    /// Number of events that it printed.
    read: Arc<AtomicU64>,
    flood: Flood,
    /// Memory of the daemon meanwhile, in MiB, once per second.
    memory: Vec<f64>,
    /// How long it was stopped, in seconds.
    seconds: f64,
}

pub(crate) fn run(bench: &Bench) -> Row {
    let mut row = Row::new("stopped", "a follower that is stopped in a flood");
    let (turns, events, seconds) = (bench.pick(6, 1), bench.pick(800_000, 10_000), bench.pick(45, 2));
    // Each flood is the first of its worker.
    let (world, workers) = BenchWorld::with_workers(2 * turns + 2);
    let (pairs, rest) = workers.split_at(2 * turns);
    let stream = format!("!stream {events}");
    flood(&world, &rest[0], &stream);

    // A shared machine is faster for some seconds. Each flood is therefore compared with its
    // neighbor, in alternating order.
    let (mut free, mut beside, mut kept) = (Vec::new(), Vec::new(), Vec::new());
    for (turn, pair) in pairs.chunks(2).enumerate() {
        let whole = |flood: Flood| {
            assert_eq!(flood.stored, events as f64, "events of a flood");
            flood.took
        };
        let without = || whole(flood(&world, &pair[0], &stream));
        let with = || whole(stopped(&world, &pair[1], &stream, Duration::ZERO).flood);
        let (without, with) = if turn % 2 == 0 {
            let without = without();
            (without, with())
        } else {
            let with = with();
            (without(), with)
        };
        free.push(events as f64 / without);
        beside.push(events as f64 / with);
        kept.push(without / with * 100.0);
    }
    let least = Duration::from_secs(bench.pick(60, 3));
    let long = stopped(&world, &rest[1], &format!("!flood {seconds}"), least);
    let stored = long.flood.stored;
    let begun = Instant::now();
    long.follower.signal(Signal::SIGCONT);
    has_read(&long.read, stored);
    let caught_up = begun.elapsed().as_secs_f64();

    row.figure(format!("a flood of {events} events without a follower"), Unit::PerSecond, &free);
    row.figure("the same right before or after, its follower stopped", Unit::PerSecond, &beside);
    let kept = row.figure("of the rate without it, each time", Unit::Percent, &kept);
    row.figure(
        format!("a flood of {seconds} s, its follower stopped"),
        Unit::PerSecond,
        &[stored / long.flood.took],
    );
    let (first, second) = long.memory.split_at((long.memory.len() / 2).max(1));
    let first = row.figure("memory of the daemon, first half of that", Unit::Megabytes, first);
    let second = row.figure("memory of the daemon, second half", Unit::Megabytes, second);
    row.figure("the follower was stopped for", Unit::Seconds, &[long.seconds]);
    row.figure("events that the follower then got", Unit::Count, &[stored]);
    row.figure("until it had them", Unit::Seconds, &[caught_up]);
    row.at_least("at least 95 % of the rate without it", Unit::Percent, 95.0, kept.median);
    row.at_most("memory flat: its peak grows by at most 4 MiB", Unit::Megabytes, 4.0, second.max - first.max);
    row.at_least(
        "it gets every event",
        Unit::Percent,
        100.0,
        long.read.load(Ordering::Relaxed) as f64 / stored * 100.0,
    );
    drop(long);
    world.finish();
    row
}

/// Does not wait with `send`: the daemon would keep the text for it, which would
/// distort the memory figures.
fn flood(world: &BenchWorld, worker: &str, prompt: &str) -> Flood {
    let database = Connection::open(world.sandbox.state_dir().join("state.db")).unwrap();
    let mut state = database.prepare("SELECT state FROM workers WHERE worker_id = ?1").unwrap();
    let begun = Instant::now();
    let _ = world.sandbox.send_no_wait(worker, prompt);
    wait_until("the end of a flood", BOUND, || {
        let state: String = state.query_row([worker], |row| row.get(0)).unwrap();
        (state == "idle").then_some(())
    });
    let took = begun.elapsed().as_secs_f64();
    let sql = "SELECT count(*) FROM events WHERE type = '' AND worker = (SELECT id FROM workers WHERE worker_id = ?1)";
    let stored = database.query_row(sql, [worker], |row| row.get::<_, i64>(0)).unwrap() as f64;
    Flood { took, stored }
}

/// Runs a flood with a follower that is stopped at its start, for at least `least`.
fn stopped(world: &BenchWorld, worker: &str, prompt: &str, least: Duration) -> Stopped {
    let read = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&read);
    let follower = Follower::start(world, worker, move |line| {
        if is(line, "progress.message") {
            counter.fetch_add(1, Ordering::Relaxed);
        }
        None::<()>
    });
    let daemon = world.sandbox.daemon().pid;
    let (flood, memory, seconds) = thread::scope(|scope| {
        let flooding = scope.spawn(|| flood(world, worker, prompt));
        has_read(&read, FIRST);
        follower.signal(Signal::SIGSTOP);
        let (begun, mut memory) = (Instant::now(), Vec::new());
        while !flooding.is_finished() || begun.elapsed() < least {
            memory.push(private(daemon).expect("a live daemon") as f64 / 1024.0);
            idle_for(Duration::from_secs(1));
        }
        (flooding.join().unwrap(), memory, begun.elapsed().as_secs_f64())
    });
    Stopped { follower, read, flood, memory, seconds }
}

fn has_read(read: &AtomicU64, count: f64) {
    wait_until("events at the follower", BOUND, || {
        (read.load(Ordering::Relaxed) as f64 >= count).then_some(())
    });
}
