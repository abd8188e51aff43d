//! The round trip of `send`, compared with a C program that posts the same request and waits.

use std::path::Path;
use std::process::Command;

use subagent_tests::measure::{Row, Unit};

use crate::Bench;
use crate::world::{BenchWorld, timed_program};

/// Number of our turns for each turn of the reference.
const OURS: usize = 5;

pub(crate) fn run(bench: &Bench) -> Row {
    let mut row = Row::new("send", "`send` with an agent that answers at once, until the end of the turn");
    let world = BenchWorld::new();
    let worker = world.start();
    let socket = world.sandbox.daemon_info().unwrap().socket;
    let program = compile(&world);
    let post = || match &program {
        Ok(program) => Some(timed_program(Command::new(program).arg(&socket).arg(&worker))),
        Err(_) => None,
    };
    let reference = bench.reference.as_ref().map(|reference| reference.in_world(&world));
    let other = reference.as_ref().ok().map(|place| (place, place.start().1));
    let (mut least, mut ours, mut theirs) = (Vec::new(), Vec::new(), Vec::new());
    for warm in [true].into_iter().chain(std::iter::repeat_n(false, bench.pick(40, 2))) {
        for _ in 0..OURS {
            least.extend(post());
            ours.push(world.send(&worker, "hi"));
        }
        if let Some((place, worker)) = &other {
            theirs.push(place.send(worker, "hi"));
        }
        if warm {
            [&mut least, &mut ours, &mut theirs].into_iter().for_each(Vec::clear);
        }
    }
    let ours = row.figure("`subagent send --json`", Unit::Millis, &ours).median;
    match &program {
        Ok(_) => {
            let least = row.figure("a C program, the same POST and wait", Unit::Millis, &least).median;
            row.at_most("p50 at most 2 times the C program", Unit::Times, 2.0, ours / least);
        }
        Err(why) => row.unmeasured("p50 at most 2 times the C program", why),
    }
    match (&other, &reference) {
        (Some((place, worker)), _) => {
            let theirs = row.figure("the reference, the same", Unit::Millis, &theirs).median;
            row.at_least("25 times as fast as the reference", Unit::Times, 25.0, theirs / ours);
            place.stop(worker);
        }
        (None, why) => {
            row.unmeasured("25 times as fast as the reference", why.as_ref().err().map_or("", |why| why));
        }
    }
    world.finish();
    row
}

fn compile(world: &BenchWorld) -> Result<std::path::PathBuf, String> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/targets/post.c");
    let program = world.sandbox.file("post");
    let output = Command::new("cc").args(["-O2", "-o"]).arg(&program).arg(source).output();
    match output {
        Err(error) => Err(format!("there is no C compiler: {error}")),
        Ok(output) if output.status.success() => Ok(program),
        Ok(output) => panic!("post.c: {}", String::from_utf8_lossy(&output.stderr)),
    }
}
