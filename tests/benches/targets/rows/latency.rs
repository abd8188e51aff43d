//! From the moment when an agent writes a chunk to that when a follower has printed it.

use nix::time::{ClockId, clock_gettime};
use std::time::Duration;

use subagent_tests::fast_agent::STAMP;
use subagent_tests::measure::{Row, Unit};

use crate::Bench;
use crate::follower::{Follower, number_after};
use crate::world::World;

const RATE: u64 = 1000;

pub(crate) fn run(bench: &Bench) -> Row {
    let mut row = Row::new("latency", "from an agent's chunk to the line of a follower");
    let seconds = bench.pick(60, 2);
    let world = World::new();
    let worker = world.start();
    let mark = format!("\"{STAMP}");
    let follower = Follower::start(&world, &worker, move |line| {
        let written = number_after(line, &mark)?;
        let now = Duration::from(clock_gettime(ClockId::CLOCK_MONOTONIC).ok()?);
        Some((now.as_nanos() as u64).saturating_sub(written) as f64 / 1e6)
    });
    world.send(&worker, &format!("!pace {RATE} {seconds}"));
    let times: Vec<f64> = (0..RATE * seconds).map(|_| follower.next()).collect();
    drop(follower);
    let what = format!("{RATE} events a second for {seconds} s");
    let found = row.figure(what, Unit::Millis, &times);
    row.at_most("p50 at most 1 ms", Unit::Millis, 1.0, found.median);
    row.at_most("p99 at most 8 ms", Unit::Millis, 8.0, found.p99);
    world.finish();
    row
}
