//! A follower that is stopped in the middle of a flood must not slow it down or make anything grow, and gets everything.

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
use crate::world::{World, idle_for};

/// For the follower, to have read what is there.
const BOUND: Duration = Duration::from_secs(900);
/// So many events of the flood have been followed when the follower is stopped.
const FIRST: f64 = 1000.0;

pub(crate) fn run(bench: &Bench) -> Row {
    let mut row = Row::new("stopped", "a follower that is stopped in a flood");
    let (world, workers) = World::with_workers(2);
    let (free_worker, followed) = (&workers[0], &workers[1]);
    let (seconds, around): (u64, u64) = (bench.pick(45, 2), bench.pick(10, 1));
    let stopped_for = Duration::from_secs(bench.pick(60, 3));
    // Events a second of a flood, until the last one is committed: the agent is some seconds ahead of that. No `send` waits for
    // it: the daemon would keep the text for it, and memory would tell of that.
    let flood = |worker: &str, seconds: u64| {
        let database = Connection::open(world.sandbox.state_dir().join("state.db")).unwrap();
        let mut state = database.prepare("SELECT state FROM workers WHERE worker_id = ?1").unwrap();
        let (before, begun) = (world.chunks(), Instant::now());
        let _ = world.sandbox.send_no_wait(worker, &format!("!flood {seconds}"));
        wait_until("the end of a flood", BOUND, || {
            let state: String = state.query_row([worker], |row| row.get(0)).unwrap();
            (state == "idle").then_some(())
        });
        (world.chunks() - before) / begun.elapsed().as_secs_f64()
    };
    flood(free_worker, bench.pick(3, 1));
    let mut free = vec![flood(free_worker, around)];

    let read = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&read);
    let follower = Follower::start(&world, followed, move |line| {
        if is(line, "progress.message") {
            counter.fetch_add(1, Ordering::Relaxed);
        }
        None::<()>
    });
    let has_read = |count: f64| {
        wait_until("events at the follower", BOUND, || {
            (read.load(Ordering::Relaxed) as f64 >= count).then_some(())
        });
    };
    let others = world.chunks();
    let daemon = world.sandbox.daemon().pid;
    let (rate, memory, stopped) = thread::scope(|scope| {
        let flooding = scope.spawn(|| flood(followed, seconds));
        has_read(FIRST);
        follower.signal(Signal::SIGSTOP);
        let (begun, mut memory) = (Instant::now(), Vec::new());
        while !flooding.is_finished() || begun.elapsed() < stopped_for {
            memory.push(private(daemon).expect("a live daemon") as f64 / 1024.0);
            idle_for(Duration::from_secs(1));
        }
        (flooding.join().unwrap(), memory, begun.elapsed().as_secs_f64())
    });
    let begun = Instant::now();
    follower.signal(Signal::SIGCONT);
    let stored = world.chunks() - others;
    has_read(stored);
    let caught_up = begun.elapsed().as_secs_f64();
    drop(follower);
    free.push(flood(free_worker, around));

    let free = row.figure(
        format!("a flood of {around} s without a follower, before and after"),
        Unit::PerSecond,
        &free,
    );
    row.figure(format!("a flood of {seconds} s, its follower stopped"), Unit::PerSecond, &[rate]);
    let half = memory.len() / 2;
    let first =
        row.figure("memory of the daemon, first half of that", Unit::Megabytes, &memory[..half.max(1)]);
    let second = row.figure("memory of the daemon, second half", Unit::Megabytes, &memory[half..]);
    row.figure("the follower was stopped for", Unit::Seconds, &[stopped]);
    row.figure("events that the follower then got", Unit::Count, &[stored]);
    row.figure("until it had them", Unit::Seconds, &[caught_up]);
    row.at_least("at least 95 % of the rate without it", Unit::Percent, 95.0, rate / free.median * 100.0);
    row.at_most("memory flat: its peak grows by at most 4 MiB", Unit::Megabytes, 4.0, second.max - first.max);
    row.at_least(
        "it gets every event",
        Unit::Percent,
        100.0,
        read.load(Ordering::Relaxed) as f64 / stored * 100.0,
    );
    world.finish();
    row
}
