//! How many events per second are journaled, committed and seen by `send`, compared with
//! inserts by SQLite alone.

use subagent_tests::measure::{Row, Unit};

use crate::floor::Floor;
use crate::world::BenchWorld;
use crate::{Bench, agent_alone};

/// Number of events of the reference, which is hundreds of times slower.
const THEIRS: u32 = 500;

pub(crate) fn run(bench: &Bench) -> Row {
    let mut row = Row::new("events", "events of an agent, journaled and committed");
    let count: u32 = bench.pick(100_000, 5_000);
    let world = BenchWorld::new();
    let worker = world.start();
    let reference = bench.reference.as_ref().map(|reference| reference.in_world(&world));
    let other = reference.as_ref().ok().map(|place| (place, place.start().1));
    let prompt = format!("!stream {count}");
    let rate = |took: f64, count: u32| f64::from(count) / took * 1000.0;
    world.send(&worker, &prompt);
    let floor = Floor::of(&world.sandbox.state_dir().join("state.db"), count as usize);
    let beside = world.sandbox.file("floor.db");
    let (mut alone, mut least, mut ours, mut theirs) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for turn in 0..bench.pick(15, 1) {
        alone.push(agent_alone::rate(bench.pick(1_000_000, 10_000)));
        least.push(floor.rate(&beside));
        ours.push(rate(world.send(&worker, &prompt), count));
        if let (Some((place, worker)), true) = (&other, turn % 3 == 0) {
            let count = bench.pick(THEIRS, 20);
            theirs.push(rate(place.send(worker, &format!("!stream {count}")), count));
        }
    }
    row.figure("the agent alone, into a pipe", Unit::PerSecond, &alone);
    let share: Vec<f64> = ours.iter().zip(&least).map(|(ours, least)| ours / least * 100.0).collect();
    let ours =
        row.figure(format!("`!stream {count}` until `send` has its end"), Unit::PerSecond, &ours).median;
    row.figure("rusqlite alone, the same rows", Unit::PerSecond, &least);
    let share = row.figure("of that, each time", Unit::Percent, &share).median;
    row.at_least("at least 100,000/s", Unit::PerSecond, 100_000.0, ours);
    row.at_least("half of what rusqlite alone inserts right before", Unit::Percent, 50.0, share);
    match (&other, &reference) {
        (Some((place, worker)), _) => {
            let what = format!("the reference, `!stream {}`", bench.pick(THEIRS, 20));
            let theirs = row.figure(what, Unit::PerSecond, &theirs).median;
            row.at_least("100 times the reference", Unit::Times, 100.0, ours / theirs);
            place.stop(worker);
        }
        (None, why) => row.unmeasured("100 times the reference", why.as_ref().err().map_or("", |why| why)),
    }
    world.finish();
    row
}
