//! A read command as a whole process, beside an empty process and the reference.

use std::process::Command;

use subagent_tests::measure::{Row, Unit};

use crate::Bench;
use crate::world::{BenchWorld, timed_program};

/// Number of our turns for each turn of the reference, which is that much slower.
const OURS: usize = 5;

pub(crate) fn run(bench: &Bench) -> Row {
    let mut row = Row::new("list", "a read command");
    let (world, _) = BenchWorld::with_workers(10);
    let reference = bench.reference.as_ref().map(|reference| reference.in_world(&world));
    let others: Vec<_> = reference.iter().flat_map(|place| (0..10).map(|_| place.start().1)).collect();
    let list = ["worker", "list"];
    let nothing = || timed_program(&mut Command::new("/bin/true"));
    let (mut of_nothing, mut ours, mut theirs) = (Vec::new(), Vec::new(), Vec::new());
    for warm in [true].into_iter().chain(std::iter::repeat_n(false, bench.pick(40, 2))) {
        for _ in 0..OURS {
            of_nothing.push(nothing());
            ours.push(world.timed(&list).0);
        }
        if let Ok(place) = &reference {
            theirs.push(place.timed(&list).0);
        }
        if warm {
            [&mut of_nothing, &mut ours, &mut theirs].into_iter().for_each(Vec::clear);
        }
    }
    let nothing = row.figure("`/bin/true`", Unit::Millis, &of_nothing).median;
    let ours = row.figure("`subagent worker list --json`, 10 workers", Unit::Millis, &ours).median;
    row.at_most("p50 at most 3 times `/bin/true`", Unit::Times, 3.0, ours / nothing);
    match &reference {
        Ok(place) => {
            let theirs = row.figure("the reference, the same", Unit::Millis, &theirs).median;
            row.at_least("25 times as fast as the reference", Unit::Times, 25.0, theirs / ours);
            others.iter().for_each(|worker| place.stop(worker));
        }
        Err(why) => row.unmeasured("25 times as fast as the reference", *why),
    }
    world.finish();
    row
}
