//! The command `worker start` in a sandbox.

use std::fs;

use subagent_tests::measure::{Row, Unit};

use crate::Bench;
use crate::world::BenchWorld;

pub(crate) fn run(bench: &Bench) -> Row {
    let mut row = Row::new("sandbox", "`worker start --sandbox`");
    let world = BenchWorld::new();
    let config = world.sandbox.config_file();
    let text = fs::read_to_string(&config).unwrap();
    fs::write(&config, format!("{text}sandboxes: {{only: {{filesystem: shared_ro}}}}\n")).unwrap();
    let (mut plain, mut inside, mut over) = (Vec::new(), Vec::new(), Vec::new());
    for warm in [true].into_iter().chain(std::iter::repeat_n(false, bench.pick(40, 2))) {
        let of_plain = world.start_and_stop(&[]);
        let of_sandbox = world.start_and_stop(&["--sandbox", "only"]);
        if !warm {
            plain.push(of_plain);
            inside.push(of_sandbox);
            over.push(of_sandbox - of_plain);
        }
    }
    row.figure("`subagent worker start --json`", Unit::Millis, &plain);
    row.figure("the same with `--sandbox`", Unit::Millis, &inside);
    let over = row.figure("the difference", Unit::Millis, &over).median;
    row.at_most("at most 60 ms over a plain start", Unit::Millis, 60.0, over);
    world.finish();
    row
}
