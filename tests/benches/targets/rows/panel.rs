//! The panel in a real Chromium: first paint, an event on its way to the screen, a long story, a crowd.

use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use subagent_tests::harness::{Browser, Running};
use subagent_tests::measure::{Row, Unit, cpu_time, private};

use crate::Bench;
use crate::world::{BenchWorld, idle_for};

/// Time limit of a measurement in the browser.
const LIMIT: Duration = Duration::from_secs(900);
/// Growth of a peak that counts as flat, in MiB.
const GROWTH: f64 = 4.0;
const MISSING: &str = "SKIPPED: Chromium, or what tests/browser/install installs, is missing";

/// A target: its name, and its unit with the limit.
type PanelTarget = (&'static str, Unit, f64);

/// A panel and the measurement of its page. Dropping it ends the panel.
struct Measuring {
    panel: Running,
    page: Running,
}

impl Measuring {
    fn begin(browser: &Browser, world: &BenchWorld, name: &str, number: u32) -> Self {
        let panel = world.sandbox.command("subagent").args(["panel"]).deadline(LIMIT).spawn();
        let link = panel.wait_line("the link", |line| line.starts_with("http://").then(|| line.to_owned()));
        let page =
            browser.start(&world.sandbox, "measure.mjs", &[name, &link], &[&number.to_string()], LIMIT);
        Self { panel, page }
    }

    fn ready(&self) {
        self.page.wait_line("that it is ready", |line| (line == "ready").then_some(()));
    }

    /// Waits for the numbers.
    fn found(self) -> Value {
        let output = self.page.output();
        assert!(output.status.success(), "{output}");
        drop(self.panel);
        serde_json::from_str(output.stdout.lines().last().unwrap_or_default()).expect("the numbers")
    }
}

fn numbers(found: &Value, key: &str) -> Vec<f64> {
    found[key].as_array().unwrap().iter().filter_map(Value::as_f64).collect()
}

/// Chromium; without it each target is unmeasured.
fn browser(row: &mut Row, targets: &[PanelTarget]) -> Option<Browser> {
    let found = Browser::find();
    if found.is_none() {
        for (wanted, ..) in targets {
            row.unmeasured(*wanted, MISSING);
        }
    }
    found
}

pub(crate) fn paint(bench: &Bench) -> Row {
    let mut row = Row::new("paint", "first paint of the panel");
    let (wanted, unit, limit) = ("first paint within 200 ms", Unit::Millis, 200.0);
    let Some(browser) = browser(&mut row, &[(wanted, unit, limit)]) else { return row };
    let (world, _) = BenchWorld::with_workers(bench.pick(20, 2));
    let found = Measuring::begin(&browser, &world, "paint", bench.pick(30, 2)).found();
    let paint = row.figure("first contentful paint", unit, &numbers(&found, "paint")).median;
    row.figure("first worker in the list", unit, &numbers(&found, "row"));
    row.at_most(wanted, unit, limit, paint);
    world.finish();
    row
}

pub(crate) fn pixel(bench: &Bench) -> Row {
    let mut row = Row::new("pixel", "from an agent's write to the frame of the panel");
    let half: PanelTarget = ("half of the events within 10 ms", Unit::Millis, 10.0);
    let most: PanelTarget = ("99 % of the events within 50 ms", Unit::Millis, 50.0);
    let Some(browser) = browser(&mut row, &[half, most]) else { return row };
    let (world, workers) = BenchWorld::with_workers(1);
    let (count, seconds) = (bench.pick(500, 20), bench.pick(60, 10));
    let measuring = Measuring::begin(&browser, &world, "pixel", count);
    measuring.ready();
    // With 10 a second each event would come at the same moment of a frame of 60 a second.
    world.send(&workers[0], &format!("!pace 13 {seconds}"));
    let found = measuring.found();
    let mut times = numbers(&found, "pixel");
    row.figure("13 events/s, each until it is painted", Unit::Millis, &times);
    row.figure(
        "the same until the page has changed; the rest is the browser's next frame",
        Unit::Millis,
        &numbers(&found, "changed"),
    );
    row.figure(
        "a change that the page makes itself, until it is painted",
        Unit::Millis,
        &numbers(&found, "own"),
    );
    times.sort_by(f64::total_cmp);
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
    row.at_most(half.0, half.1, half.2, at(0.5));
    row.at_most(most.0, most.1, most.2, at(0.99));
    row.figure("uncertainty between the two clocks", Unit::Millis, &numbers(&found, "clock"));
    world.finish();
    row
}

pub(crate) fn transcript(bench: &Bench) -> Row {
    let mut row = Row::new("transcript", "a long story opened in the panel");
    let (wanted, unit, limit) = ("100,000 events open within 300 ms", Unit::Millis, 300.0);
    let Some(browser) = browser(&mut row, &[(wanted, unit, limit)]) else { return row };
    let (world, workers) = BenchWorld::with_workers(1);
    let count = bench.pick(100_000, 5_000);
    world.send(&workers[0], &format!("!stream {count}"));
    let found = Measuring::begin(&browser, &world, "transcript", bench.pick(30, 2)).found();
    let what = format!("from the click to the end of {count} events");
    let opens = row.figure(what, unit, &numbers(&found, "opens")).median;
    row.at_most(wanted, unit, limit, opens);
    world.finish();
    row
}

pub(crate) fn crowd(bench: &Bench) -> Row {
    let mut row = Row::new("watched", "500 workers with 2,000 events/s, looked at in the panel");
    let core: PanelTarget = ("daemon and panel below 10 % of a core", Unit::Percent, 10.0);
    let frames: PanelTarget = ("60 frames per second in the page", Unit::Count, 59.0);
    let flat: PanelTarget = ("memory flat: each peak grows by at most 4 MiB", Unit::Megabytes, GROWTH);
    let Some(browser) = browser(&mut row, &[core, frames, flat]) else { return row };
    let (world, workers) = BenchWorld::with_workers(bench.pick(500, 10));
    let seconds = if bench.options.ten_minutes { 600 } else { bench.pick(120, 6) };
    let measuring = Measuring::begin(&browser, &world, "crowd", seconds);
    measuring.ready();
    // Longer than what is measured: the turns begin one after the other.
    let prompt = format!("!pace 4 {}", 2 * seconds + 60);
    for worker in &workers {
        let send = ["send", "--worker-id", worker, "--text", &prompt, "--no-wait"];
        let sent = world.sandbox.subagent(&send).process().stdout(Stdio::null()).status().unwrap();
        assert!(sent.success());
    }
    let pids = [world.sandbox.daemon().pid, measuring.panel.pid()];
    let times = || pids.map(|pid| cpu_time(pid).expect("a live process"));
    let before = times();
    let (mut daemon, mut panel) = (Vec::new(), Vec::new());
    for _ in 0..seconds {
        idle_for(Duration::from_secs(1));
        let [first, second] = pids.map(|pid| private(pid).expect("a live process") as f64 / 1024.0);
        daemon.push(first);
        panel.push(second);
    }
    let used: Vec<f64> =
        times().iter().zip(before).map(|(now, before)| (*now - before).as_secs_f64()).collect();
    let share = |used: f64| used / f64::from(seconds) * 100.0;
    row.figure("CPU of the daemon", Unit::Percent, &[share(used[0])]);
    row.figure("CPU of the panel", Unit::Percent, &[share(used[1])]);
    row.at_most(core.0, core.1, core.2, share(used[0] + used[1]));
    let found = measuring.found();
    let drawn = row.figure("frames per second in the page", Unit::Count, &numbers(&found, "frames")).median;
    row.at_least(frames.0, frames.1, frames.2, drawn);
    let page: Vec<f64> = numbers(&found, "heap").iter().map(|bytes| bytes / 1024.0 / 1024.0).collect();
    let growth = [("the daemon", &daemon), ("the panel", &panel), ("the page, after a collection", &page)]
        .map(|(name, samples)| halves(&mut row, name, seconds, samples));
    row.at_most(flat.0, flat.1, flat.2, growth.into_iter().fold(f64::MIN, f64::max));
    for worker in &workers {
        let canceled = world.sandbox.subagent(&["cancel", "--worker-id", worker]).run();
        if !canceled.status.success() {
            // Its turn has ended by itself.
            canceled.error("WORKER_NOT_RUNNING");
        }
    }
    world.finish();
    row
}

/// Adds the memory in both halves of the time. Returns by how much the peak has grown.
fn halves(row: &mut Row, name: &str, seconds: u32, samples: &[f64]) -> f64 {
    let (first, second) = samples.split_at((samples.len() / 2).max(1));
    let what = |half: &str| format!("memory of {name}, {half} half of {seconds} s");
    let first = row.figure(what("first"), Unit::Megabytes, first);
    let second = row.figure(what("second"), Unit::Megabytes, second);
    second.max - first.max
}
