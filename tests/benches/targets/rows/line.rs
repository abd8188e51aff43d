//! One very long line of an agent: how much memory each process needs for it at most.

use std::io::Read;
use std::process::{Command, Stdio};

use subagent_tests::harness::process::Process;
use subagent_tests::measure::{Row, Unit};

use crate::Bench;
use crate::follower::{Follower, is};
use crate::world::World;

pub(crate) fn run(bench: &Bench) -> Row {
    let mut row = Row::new("line", "one line of 32 MiB from an agent");
    let bytes: u32 = bench.pick(32, 1) * 1024 * 1024;
    let world = World::new();
    let worker = world.start();
    let runtime = world.sandbox.runtime(&worker);
    let daemon = world.sandbox.daemon();
    let follower = Follower::start(&world, &worker, |line| is(line, "turn.completed").then_some(()));
    let prompt = format!("!line {bytes}");
    let args = ["send", "--worker-id", &worker, "--text", &prompt, "--wait-timeout-seconds", "300"];
    let send = peak_of(&mut world.sandbox.subagent(&args).process());
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

/// The most memory that a command had while it ran, in KiB: it is looked at with each piece of its output, of which there
/// is much here, so it is near its end at the last look.
fn peak_of(command: &mut Command) -> u64 {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let mut output = child.stdout.take().unwrap();
    let pid = i32::try_from(child.id()).unwrap();
    let (mut peak, mut buffer) = (0, vec![0; 64 * 1024]);
    while output.read(&mut buffer).unwrap() > 0 {
        peak = peak.max(Process::find(pid).map_or(0, |process| process.peak_memory_kib()));
    }
    assert!(child.wait().unwrap().success(), "{command:?}");
    peak
}
