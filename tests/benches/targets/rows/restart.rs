//! A daemon restart with many live workers: the time to the first answer, and until all
//! workers are connected again.

use std::time::Instant;

use subagent_tests::measure::{Row, Unit};

use crate::Bench;
use crate::world::{BenchWorld, millis};

pub(crate) fn run(bench: &Bench) -> Row {
    let count = bench.pick(200, 10);
    let mut row = Row::new("restart", "the daemon is started anew with 200 live workers");
    let (world, workers) = BenchWorld::with_workers(count);
    let (mut first, mut all) = (Vec::new(), Vec::new());
    for turn in 0..bench.pick(10, 2) {
        if turn % 2 == 0 {
            let _ = world.sandbox.command("subagentd").args(["stop", "--json"]).run().data();
        } else {
            world.sandbox.kill_daemon();
        }
        let begun = Instant::now();
        // This command starts the daemon.
        first.push(world.timed(&["worker", "show", &workers[count / 2]]).0);
        let listed = world.timed(&["worker", "list"]).1;
        all.push(millis(begun.elapsed()) / 1000.0);
        let items = listed["items"].as_array().unwrap();
        let adopted =
            items.iter().filter(|worker| worker["state"] == "idle" && worker["runtimePid"].is_i64());
        assert_eq!(adopted.count(), count, "the list must show the state of all workers");
    }
    let what = format!("the command that starts the daemon, {count} workers; stopped and killed in turns");
    let first = row.figure(what, Unit::Millis, &first);
    let all =
        row.figure("from its start until `worker list` has said that all are there", Unit::Seconds, &all);
    row.at_most("first command answered within 300 ms, each time", Unit::Millis, 300.0, first.max);
    row.at_most("all adopted within 2 s, each time", Unit::Seconds, 2.0, all.max);
    world.finish();
    row
}
