//! One very long line of an agent: the peak memory of each process.

use subagent_tests::harness::process::Process;
use subagent_tests::measure::{Row, Unit, peak_of};

use crate::Bench;
use crate::follower::{Follower, is};
use crate::world::BenchWorld;

pub(crate) fn run(bench: &Bench) -> Row {
    let mut row = Row::new("line", "one line of 32 MiB from an agent");
    let bytes: u32 = bench.pick(32, 1) * 1024 * 1024;
    let world = BenchWorld::new();
    let worker = world.start();
    let runtime = world.sandbox.runtime(&worker);
    let daemon = world.sandbox.daemon();
    let follower = Follower::start(&world, &worker, |line| is(line, "turn.completed").then_some(()));
    let prompt = format!("!line {bytes}");
    let args = ["send", "--worker-id", &worker, "--text", &prompt, "--wait-timeout-seconds", "300"];
    let send = peak_of(&mut world.sandbox.subagent(&args).process(), Process::peak_memory_kib);
    follower.next();
    let follower_peak = Process::find(follower.pid()).expect("a follower that lives").peak_memory_kib();
    drop(follower);
    let line = f64::from(bytes) / 1024.0;
    for (what, peak) in [
        ("runtime", runtime.peak_memory_kib()),
        ("daemon", daemon.peak_memory_kib()),
        ("`watch --follow`", follower_peak),
        ("`send`", send),
    ] {
        let peak = row.figure(format!("peak of {what}"), Unit::Megabytes, &[peak as f64 / 1024.0]).median;
        row.at_most(format!("{what}: at most 4 times the line"), Unit::Times, 4.0, peak * 1024.0 / line);
    }
    world.finish();
    row
}
