//! The cost of many idle workers.

use std::time::Instant;

use subagent_tests::measure::{Row, Unit, memory};

use crate::Bench;
use crate::world::{BenchWorld, sync};

pub(crate) fn run(bench: &Bench) -> Row {
    let count = bench.pick(500, 20);
    let mut row = Row::new("crowd", "500 idle workers");
    let world = BenchWorld::new();
    let begun = Instant::now();
    for _ in 0..count {
        world.timed(&["worker", "start", "--launcher", "fast"]);
    }
    let took = begun.elapsed().as_secs_f64();
    let (mut listing, mut listed) = (Vec::new(), serde_json::Value::Null);
    for warm in [true].into_iter().chain(std::iter::repeat_n(false, bench.pick(50, 3))) {
        let (took, data) = world.timed(&["worker", "list"]);
        if !warm {
            listing.push(took);
        }
        listed = data;
    }
    let items = listed["items"].as_array().unwrap();
    let idle = items.iter().filter(|worker| worker["state"] == "idle" && worker["runtimePid"].is_i64());
    assert_eq!(idle.count(), count, "not all of them are idle with a runtime");
    sync();
    let share = |pid| memory(pid).expect("a live process").proportional as f64 / 1024.0;
    let workers: f64 =
        items.iter().flat_map(|worker| world.own_processes(worker)).map(|process| share(process.pid)).sum();
    let daemon = share(world.sandbox.daemon().pid);
    row.figure(format!("{count} workers started, one after the other"), Unit::Seconds, &[took]);
    row.figure("PSS of all runtimes and guards", Unit::Megabytes, &[workers]);
    row.figure("PSS of the daemon", Unit::Megabytes, &[daemon]);
    let listing = row.figure(format!("`worker list`, {count} workers"), Unit::Millis, &listing);
    row.at_most("started within 20 s", Unit::Seconds, 20.0, took);
    row.at_most("the control plane within 250 MiB", Unit::Megabytes, 250.0, workers + daemon);
    row.at_most("`worker list` below 30 ms", Unit::Millis, 30.0, listing.median);
    world.finish();
    row
}
