//! Many workers that stream at once, compared with one that streams as much alone.

use subagent_tests::measure::{Row, Unit};

use crate::Bench;
use crate::world::BenchWorld;

pub(crate) fn run(bench: &Bench) -> Row {
    let mut row = Row::new("streaming", "50 workers streaming at once");
    let count: u32 = bench.pick(50, 5);
    let each: u32 = bench.pick(6_000, 500);
    let (world, workers) = BenchWorld::with_workers(count as usize);
    let total = f64::from(count * each);
    let (mut alone, mut together) = (Vec::new(), Vec::new());
    for turn in 1..=bench.pick(5, 1) {
        alone.push(total / world.send(&workers[0], &format!("!stream {}", count * each)) * 1000.0);
        together.push(total / world.send_to_all(&workers, &format!("!stream {each}")) * 1000.0);
        assert_eq!(world.chunks(), f64::from(turn) * 2.0 * total, "every chunk is stored");
    }
    let alone = row.figure(format!("one worker, {total} events"), Unit::PerSecond, &alone).median;
    let what = format!("{count} workers at once, {each} events each");
    let together = row.figure(what, Unit::PerSecond, &together).median;
    row.at_least("at least 80 % of one worker's rate", Unit::Percent, 80.0, together / alone * 100.0);
    row.note("no turn failed and no event is missing, or this row would have none of these lines");
    world.finish();
    row
}
