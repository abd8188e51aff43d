//! Workers on another machine: a real ssh server on the loopback interface, whose connections the
//! client shares. The round trip of a network comes on top.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::Value;
use subagent_tests::harness::process::Process;
use subagent_tests::harness::{SshHost, TestSandbox, wait_until};
use subagent_tests::measure::{Row, Unit, cpu_time, memory};

use super::latency::paced;
use crate::world::{BenchWorld, idle_for, sync};
use crate::{Bench, distance};

const MISSING: &str = "openssh-server is missing";
const NO_NETWORK: &str = "openssh-server, iproute2 or nftables is missing, or no namespace can be made";
/// Events a second of a worker whose events are timed.
const RATE: u64 = 100;
/// What a byte to the far host and its answer take.
const ROUND_TRIP: Duration = Duration::from_millis(50);
/// Time limit for the news that a host is there or not.
const LIMIT: Duration = Duration::from_secs(300);
const THERE: &str = "there";
const ON: [&str; 2] = ["--on", THERE];
/// The number of hosts of a fleet.
const HOSTS: usize = 4;

/// A world with a host, and a worker there that keeps the shared connection open.
struct RemoteWorld {
    world: BenchWorld,
    host: SshHost,
    worker: String,
}

impl RemoteWorld {
    /// Begins one. `round_trip`: what a byte and its answer take longer.
    fn begin(round_trip: Option<Duration>) -> Option<Self> {
        let world = BenchWorld::empty();
        let host = SshHost::start(&world.sandbox)?;
        let port = round_trip.map_or(host.port(), |time| distance::open(host.port(), time));
        host.share_connections_through(port);
        world.sandbox.init();
        let worker = start_on(&world, THERE);
        Some(Self { world, host, worker })
    }

    /// Returns how many milliseconds a start there takes longer than one here.
    fn start_there(&self, row: &mut Row, bench: &Bench) -> f64 {
        let (mut here, mut there) = (Vec::new(), Vec::new());
        for _ in 0..bench.pick(30, 2) {
            here.push(self.world.start_and_stop(&[]));
            there.push(self.world.start_and_stop(&ON));
        }
        let here = row.figure("`worker start`", Unit::Millis, &here).median;
        let there = row.figure("`worker start --on there`", Unit::Millis, &there).median;
        there - here
    }

    /// Returns after how many milliseconds a follower has an event, as a median.
    fn events_there(&self, row: &mut Row, bench: &Bench) -> f64 {
        let times = paced(&self.world, &self.worker, RATE, bench.pick(30, 2));
        let name = format!("{RATE} events a second, each until a follower has it");
        row.figure(name, Unit::Millis, &times).median
    }

    fn finish(self) {
        self.world.finish();
        drop(self.host);
    }
}

/// Starts a worker at this placement and returns its id.
fn start_on(world: &BenchWorld, place: &str) -> String {
    let (_, data) = world.timed(&["worker", "start", "--launcher", "fast", "--on", place]);
    data["workerId"].as_str().unwrap().to_owned()
}

pub(crate) fn ssh(bench: &Bench) -> Row {
    let mut row = Row::new("ssh", "a worker on another machine, through loopback");
    let starts = "a start at most 150 ms over a local one";
    let events = "events: at least half of the local rate";
    let latency = "an event: p50 at most 2 ms";
    let Some(remote) = RemoteWorld::begin(None) else {
        [starts, latency, events].into_iter().for_each(|wanted| row.unmeasured(wanted, MISSING));
        return row;
    };
    let world = &remote.world;
    let longer = remote.start_there(&mut row, bench);
    row.at_most(starts, Unit::Millis, 150.0, longer);
    let found = remote.events_there(&mut row, bench);
    row.at_most(latency, Unit::Millis, 2.0, found);

    let count: u32 = bench.pick(100_000, 5_000);
    let local = world.start();
    let prompt = format!("!stream {count}");
    let rate = |worker: &str| f64::from(count) / world.send(worker, &prompt) * 1000.0;
    let (mut here, mut there) = (Vec::new(), Vec::new());
    for warm in [true].into_iter().chain(std::iter::repeat_n(false, bench.pick(10, 1))) {
        let (of_local, of_remote) = (rate(&local), rate(&remote.worker));
        if !warm {
            here.push(of_local);
            there.push(of_remote);
        }
    }
    let share: Vec<f64> = there.iter().zip(&here).map(|(there, here)| there / here * 100.0).collect();
    row.figure(format!("`!stream {count}` here"), Unit::PerSecond, &here);
    row.figure("the same there", Unit::PerSecond, &there);
    let share = row.figure("of that, each time", Unit::Percent, &share).median;
    row.at_least(events, Unit::Percent, 50.0, share);
    remote.finish();
    row
}

pub(crate) fn distance(bench: &Bench) -> Row {
    let mut row = Row::new("distance", "the same, 50 ms away");
    let starts = "a start at most 150 ms and three round trips over a local one";
    let latency = "an event: p50 at most a round trip and 2 ms";
    let Some(remote) = RemoteWorld::begin(Some(ROUND_TRIP)) else {
        [starts, latency].into_iter().for_each(|wanted| row.unmeasured(wanted, MISSING));
        return row;
    };
    let round_trip = ROUND_TRIP.as_secs_f64() * 1000.0;
    let longer = remote.start_there(&mut row, bench);
    row.at_most(starts, Unit::Millis, 150.0 + 3.0 * round_trip, longer);
    let found = remote.events_there(&mut row, bench);
    row.at_most(latency, Unit::Millis, round_trip + 2.0, found);
    remote.finish();
    row
}

pub(crate) fn unreachable(bench: &Bench) -> Row {
    let mut row = Row::new("unreachable", "200 workers on 200 hosts that do not answer any more");
    let (lists, sends) = ("`worker list` below 30 ms", "`send` to another worker at most 1.5 times as long");
    let world = BenchWorld::empty();
    let Some(host) = SshHost::start_in_network(&world.sandbox) else {
        [lists, sends].into_iter().for_each(|wanted| row.unmeasured(wanted, NO_NETWORK));
        return row;
    };
    let count = bench.pick(200, 3);
    host.place_as_several(&world.sandbox, count as usize);
    world.sandbox.init();
    let local = world.start();
    let daemon = world.sandbox.daemon().pid;
    let proportional = || {
        sync();
        memory(daemon).expect("a live process").proportional as f64
    };
    let before = proportional();
    let there: Vec<String> = (1..=count).map(|number| start_on(&world, &format!("there-{number}"))).collect();
    let of_one = (proportional() - before) / f64::from(count);
    row.figure("memory of the daemon for each worker there", Unit::Kilobytes, &[of_one]);
    let of_client = |process: &Process| memory(process.pid).map_or(0.0, |memory| memory.proportional as f64);
    let clients = Process::find(daemon).expect("the daemon").children();
    let clients: f64 = clients.iter().filter(|child| child.name == "ssh").map(of_client).sum();
    row.figure(
        "memory of the ssh client here for each of them",
        Unit::Kilobytes,
        &[clients / f64::from(count)],
    );
    let turns = || world.send_to_all(&there, "!stream 1") / 1000.0;
    row.figure(format!("a turn of all {count} at once"), Unit::Seconds, &[turns()]);
    world.sandbox.kill_daemon();
    row.figure("the same after the daemon was killed", Unit::Seconds, &[turns()]);
    let daemon = world.sandbox.daemon().pid;
    let times = bench.pick(50, 3);
    let timed = || {
        let list: Vec<f64> = (0..times).map(|_| world.timed(&["worker", "list"]).0).collect();
        let send: Vec<f64> = (0..times).map(|_| world.send(&local, "!stream 1")).collect();
        (list, send)
    };
    let (list, send) = timed();
    row.figure(format!("`worker list`, {count} workers there"), Unit::Millis, &list);
    let reached = row.figure("`send` to a worker here", Unit::Millis, &send).median;

    host.lose_packets();
    wait_until("the news that nothing answers", LIMIT, || (unreached(&world.sandbox) == count).then_some(()));
    let (list, send) = timed();
    let list = row.figure("`worker list` while no host answers", Unit::Millis, &list).median;
    let send = row.figure("`send` to a worker here while no host answers", Unit::Millis, &send).median;
    row.at_most(lists, Unit::Millis, 30.0, list);
    row.at_most(sends, Unit::Times, 1.5, send / reached);
    let used = || cpu_time(daemon).expect("a live process").as_secs_f64();
    let (seconds, begun) = (bench.pick(30, 1), used());
    idle_for(Duration::from_secs(seconds));
    let share = (used() - begun) / seconds as f64 * 100.0;
    row.figure(format!("CPU of the daemon in {seconds} s of that"), Unit::Percent, &[share]);

    host.find_packets();
    wait_until("the news that all answer", LIMIT, || (unreached(&world.sandbox) == 0).then_some(()));
    host.cut();
    world.finish();
    drop(host);
    row
}

pub(crate) fn fleet(bench: &Bench) -> Row {
    let count = bench.pick(2000, 8);
    let mut row = Row::new("fleet", "2,000 workers on 4 hosts, each behind a network of its own");
    let wanted = "the daemon within 200 MiB";
    let world = BenchWorld::empty();
    let Some(hosts) = SshHost::start_several(&world.sandbox, HOSTS) else {
        row.unmeasured(wanted, NO_NETWORK);
        return row;
    };
    hosts.iter().for_each(SshHost::share_connections);
    world.sandbox.init();
    let begun = Instant::now();
    let started: Vec<Vec<String>> = std::thread::scope(|scope| {
        let on = |host| {
            let (world, name) = (&world, format!("there-{host}"));
            scope.spawn(move || (0..count / HOSTS).map(|_| start_on(world, &name)).collect())
        };
        let threads: Vec<_> = (1..=HOSTS).map(on).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    row.figure(format!("{count} workers started"), Unit::Seconds, &[begun.elapsed().as_secs_f64()]);
    sync();
    let daemon = world.sandbox.daemon().pid;
    let proportional = memory(daemon).expect("a live process").proportional as f64 / 1024.0;
    row.at_most(wanted, Unit::Megabytes, 200.0, proportional);
    let of_one = |number: usize| number as f64 / count as f64;
    let clients = Process::find(daemon).expect("the daemon").children().len();
    row.figure("processes here for each of them", Unit::Count, &[of_one(clients)]);
    row.figure("open files of the daemon for each", Unit::Count, &[of_one(open_files(daemon))]);
    let times = bench.pick(30, 2);
    let list: Vec<f64> = (0..times).map(|_| world.timed(&["worker", "list"]).0).collect();
    row.figure(format!("`worker list`, {count} workers"), Unit::Millis, &list);
    let send: Vec<f64> = (0..times).map(|_| world.send(&started[0][0], "!stream 1")).collect();
    row.figure("`send` to one of them", Unit::Millis, &send);
    hosts[HOSTS - 1].cut_network();
    let cut = started[HOSTS - 1].len() as u32;
    wait_until("the news that a host is cut off", LIMIT, || (unreached(&world.sandbox) == cut).then_some(()));
    let send: Vec<f64> = (0..times).map(|_| world.send(&started[0][0], "!stream 1")).collect();
    row.figure("the same while a host is cut off", Unit::Millis, &send);
    hosts[HOSTS - 1].restore_network();
    wait_until("the news that it is back", LIMIT, || (unreached(&world.sandbox) == 0).then_some(()));
    let at_once: Vec<String> = started.iter().flat_map(|of_host| of_host.iter().take(50).cloned()).collect();
    let turns = world.send_to_all(&at_once, "!stream 1") / 1000.0;
    row.figure(format!("a turn of {} of them at once", at_once.len()), Unit::Seconds, &[turns]);
    world.finish();
    row
}

fn open_files(pid: i32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).expect("a live process").count()
}

/// Returns the number of workers whose place does not answer.
fn unreached(sandbox: &TestSandbox) -> u32 {
    let listed = sandbox.run(&["worker", "list"]).data_of("worker.listed");
    let is_unreached = |worker: &&Value| worker["unreachable"].is_object();
    listed["items"].as_array().unwrap().iter().filter(is_unreached).count() as u32
}
