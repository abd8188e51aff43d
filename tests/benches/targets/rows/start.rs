//! `worker start`, without the time of the agent's own start.

use subagent_tests::measure::{Row, Unit};

use crate::world::BenchWorld;
use crate::{Bench, agent_alone};

pub(crate) fn run(bench: &Bench) -> Row {
    let mut row = Row::new("start", "`worker start`, over the agent's own start");
    let world = BenchWorld::new();
    let reference = bench.reference.as_ref().map(|reference| reference.in_world(&world));
    let (mut alone, mut whole, mut ours, mut theirs) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for warm in [true].into_iter().chain(std::iter::repeat_n(false, bench.pick(40, 2))) {
        let own = agent_alone::start();
        let (took, data) = world.timed(&["worker", "start", "--launcher", "fast"]);
        world.timed(&["worker", "stop", data["workerId"].as_str().unwrap()]);
        alone.push(own);
        whole.push(took);
        ours.push(took - own);
        if let Ok(place) = &reference {
            let own = agent_alone::start();
            let (took, worker) = place.start();
            place.stop(&worker);
            theirs.push(took - own);
        }
        if warm {
            [&mut alone, &mut whole, &mut ours, &mut theirs].into_iter().for_each(Vec::clear);
        }
    }
    row.figure("the agent alone, until it has a session", Unit::Millis, &alone);
    row.figure("`subagent worker start --json`", Unit::Millis, &whole);
    let ours = row.figure("the same over the agent's own start", Unit::Millis, &ours).median;
    row.at_most("at most 15 ms over the agent's own start", Unit::Millis, 15.0, ours);
    match &reference {
        Ok(_) => {
            let theirs =
                row.figure("the reference, over the agent's own start", Unit::Millis, &theirs).median;
            row.at_least("15 times as fast as the reference", Unit::Times, 15.0, theirs / ours);
        }
        Err(why) => row.unmeasured("15 times as fast as the reference", *why),
    }
    world.finish();
    row
}
