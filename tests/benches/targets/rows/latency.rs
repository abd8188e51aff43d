//! The time from the agent's write of a chunk until a follower has printed it, also beside a
//! notification sink that hangs.

use std::fs;
use std::net::TcpListener;
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use subagent_tests::fast_agent::STAMP;
use subagent_tests::measure::{Row, Unit};

use crate::Bench;
use crate::follower::{Follower, number_after};
use crate::world::BenchWorld;

const RATE: u64 = 1000;

pub(crate) fn run(bench: &Bench) -> Row {
    let mut row = Row::new("latency", "from an agent's chunk to the line of a follower");
    let seconds = bench.pick(60, 2);
    let world = BenchWorld::new();
    let times = paced(&world, &world.start(), RATE, seconds);
    world.finish();
    let what = format!("{RATE} events a second for {seconds} s");
    let found = row.figure(what, Unit::Millis, &times);
    row.at_most("p50 at most 1 ms", Unit::Millis, 1.0, found.median);
    row.at_most("p99 at most 8 ms", Unit::Millis, 8.0, found.p99);
    let times = beside_a_sink_that_hangs(seconds);
    let found = row.figure("the same, a sink of notifications hangs", Unit::Millis, &times);
    row.at_most("p50 at most 1 ms beside a sink that hangs", Unit::Millis, 1.0, found.median);
    row.at_most("p99 at most 8 ms beside a sink that hangs", Unit::Millis, 8.0, found.p99);
    row
}

/// The latency of each chunk of one turn, in ms.
pub(super) fn paced(world: &BenchWorld, worker: &str, rate: u64, seconds: u64) -> Vec<f64> {
    let mark = format!("\"{STAMP}");
    let follower = Follower::start(world, worker, move |line| {
        let written = number_after(line, &mark)?;
        let now = Duration::from(clock_gettime(ClockId::CLOCK_MONOTONIC).ok()?);
        Some((now.as_nanos() as u64).saturating_sub(written) as f64 / 1e6)
    });
    world.send(worker, &format!("!pace {rate} {seconds}"));
    (0..rate * seconds).map(|_| follower.next()).collect()
}

fn beside_a_sink_that_hangs(seconds: u64) -> Vec<f64> {
    let world = BenchWorld::empty();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let file = world.sandbox.file("home/.config/subagent/config.yaml");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    fs::write(file, format!("notify:\n  - {{to: webhook, url: '{url}', on: [done]}}\n")).unwrap();
    world.sandbox.init();
    world.send(&world.start(), "a turn whose end is notified");
    let held = listener.accept().unwrap();
    let times = paced(&world, &world.start(), RATE, seconds);
    drop(held);
    world.finish();
    times
}
