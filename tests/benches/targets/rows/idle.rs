//! The cost of idle workers: memory of runtime and guard, and wakeups of both and of the daemon.

use std::time::Duration;

use subagent_tests::measure::{Row, Switches, Unit, context_switches, memory};

use crate::Bench;
use crate::follower::Follower;
use crate::world::{BenchWorld, idle_for, sync};

pub(crate) fn run(bench: &Bench) -> Row {
    let mut row = Row::new("idle", "idle workers");
    let count = bench.pick(50, 5);
    let (world, workers) = BenchWorld::with_workers(count);
    let follower = Follower::start(&world, &workers[0], |_| Some(()));
    let listed = world.timed(&["worker", "list"]).1;
    let own: Vec<_> =
        listed["items"].as_array().unwrap().iter().map(|worker| world.own_processes(worker)).collect();
    // Pending work of the starts and the list is done, and idle threads have ended.
    sync();
    let settle = Duration::from_secs(bench.pick(15, 12));
    // A follower asks its daemon for a sign of life after 15 s without an event. Each further pause
    // is twice as long, up to 5 min. The measurement lies between two of these moments.
    let silent = Duration::from_secs(bench.pick(55, 17));
    let seconds = bench.pick(30, 2);
    let daemon = world.sandbox.daemon().pid;
    let ours: Vec<i32> = own.iter().flatten().map(|process| process.pid).chain([daemon]).collect();
    let woken = |pids: &[i32], settle| {
        idle_for(settle);
        let before: Vec<Switches> = pids.iter().map(|pid| context_switches(*pid)).collect();
        idle_for(Duration::from_secs(seconds));
        let since = |(pid, before): (&i32, &Switches)| context_switches(*pid).since(before);
        pids.iter().zip(&before).map(since).sum::<u64>() as f64
    };
    let followed = woken(&[&ours[..], &[follower.pid()]].concat(), silent);
    drop(follower);
    let alone = woken(&ours, settle);

    let kilobytes = |pid| memory(pid).expect("a live process");
    let of = |index: usize| own.iter().map(move |pair| kilobytes(pair[index].pid));
    let dirty: Vec<f64> =
        of(0).zip(of(1)).map(|(one, other)| (one.private_dirty + other.private_dirty) as f64).collect();
    let share = |index: usize| of(index).map(|found| found.proportional as f64).collect::<Vec<f64>>();
    let (runtimes, guards) = (share(0), share(1));
    let dirty = row.figure("private dirty, runtime and guard together", Unit::Kilobytes, &dirty);
    let runtime = row.figure(format!("PSS of a runtime, {count} running"), Unit::Kilobytes, &runtimes);
    let guard = row.figure("PSS of a guard", Unit::Kilobytes, &guards);
    row.figure("PSS of the daemon", Unit::Kilobytes, &[kilobytes(daemon).proportional as f64]);
    let what = format!("context switches in {seconds} s of all runtimes, guards and the daemon");
    row.figure(what, Unit::Count, &[alone]);
    row.figure("the same with a follower, it included", Unit::Count, &[followed]);
    row.at_most("at most 512 kB private dirty", Unit::Kilobytes, 512.0, dirty.median);
    row.at_most("PSS at most 400 kB each", Unit::Kilobytes, 400.0, runtime.median.max(guard.median));
    row.at_most(format!("0 context switches in {seconds} s"), Unit::Count, 0.0, alone);
    row.at_most("0 with a follower", Unit::Count, 0.0, followed);
    row.note("a follower sends a heartbeat after 15, 30, 60 s and so on; none falls in these seconds");
    row.note("PSS includes private dirty, so \"each\" means each process");
    world.finish();
    row
}
