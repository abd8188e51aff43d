//! The board with many workers: from a key to the picture.

use std::time::{Duration, Instant};

use subagent_tests::harness::On;
use subagent_tests::measure::{Row, Unit};

use crate::Bench;
use crate::world::{BenchWorld, idle_for, millis};

/// Time limit of a picture.
const LIMIT: Duration = Duration::from_secs(10);
/// Pause of the look at the terminal: the resolution.
const STEP: Duration = Duration::from_micros(200);
/// Time in which no picture may come by itself, before a key.
const QUIET: Duration = Duration::from_millis(60);

pub(crate) fn run(bench: &Bench) -> Row {
    let mut row = Row::new("board", "a key on the board of many workers");
    let count = bench.pick(500, 20);
    let (world, _) = BenchWorld::with_workers(count);
    let board = world.sandbox.command("subagent").args(["top"]).at_terminal(200, On::All);
    board.sees(&format!("Done  {count}"));
    let mut times = Vec::new();
    for number in 0..bench.pick(200, 10) {
        idle_for(QUIET);
        let before = board.bytes().len();
        let begun = Instant::now();
        // The list is as long as it is: down, then up again.
        board.types(if number % 40 < 20 { "j" } else { "k" });
        while board.bytes().len() == before {
            assert!(begun.elapsed() < LIMIT, "no picture after a key");
            idle_for(STEP);
        }
        times.push(millis(begun.elapsed()));
    }
    row.figure(format!("from a key to the picture, {count} workers"), Unit::Millis, &times);
    times.sort_by(f64::total_cmp);
    let nearly_all = times[(times.len() - 1) * 99 / 100];
    row.at_most("99 % of the keys within 30 ms", Unit::Millis, 30.0, nearly_all);
    board.types("q");
    assert!(board.screen().status.success());
    world.finish();
    row
}
