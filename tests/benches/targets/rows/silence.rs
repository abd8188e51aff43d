//! A read command beside silent connections from below a worker.

use std::fs;
use std::time::Duration;

use subagent_tests::harness::wait_until;
use subagent_tests::measure::{Row, Unit};

use crate::Bench;
use crate::world::BenchWorld;

/// Time limit for opening the connections.
const OPENED: Duration = Duration::from_secs(120);

pub(crate) fn run(bench: &Bench) -> Row {
    let connections = bench.pick(5_000, 500);
    let mut row = Row::new("silence", "5,000 silent connections from below a worker");
    let (world, _) = BenchWorld::with_workers(10);
    let worker = world.sandbox.start("demo");
    let listing =
        || -> Vec<f64> { (0..bench.pick(200, 10)).map(|_| world.timed(&["worker", "list"]).0).collect() };
    drop(listing());
    let before = listing();
    let socket = world.sandbox.daemon_info().unwrap().socket;
    let (opened, gate) = (world.sandbox.file("opened"), world.sandbox.file("gate"));
    let crowd = shell_words::join([
        world.sandbox.executable("stranger").as_str(),
        "crowd",
        socket.to_str().unwrap(),
        &connections.to_string(),
        "",
        "0",
        opened.to_str().unwrap(),
        gate.to_str().unwrap(),
    ]);
    let _ = world.sandbox.send(&worker, &format!("!shell {crowd} >/dev/null 2>&1 </dev/null &"));
    wait_until("the connections to be open", OPENED, || opened.exists().then_some(()));
    let beside = listing();
    fs::write(&gate, "").unwrap();
    let before = row.figure("`subagent worker list --json`, 11 workers", Unit::Millis, &before).median;
    let beside = row.figure("the same, beside 5,000 silent connections", Unit::Millis, &beside).median;
    row.at_most("`worker list` at most twice the time without", Unit::Times, 2.0, beside / before);
    world.finish();
    row
}
