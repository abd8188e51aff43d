//! Continuous work: open files, memory, processes, journal and WAL stay within
//! limits after a warm-up.

use std::collections::BTreeMap;
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use subagent_tests::harness::process::Process;
use subagent_tests::harness::{TestSandbox, say, times, wait_while};

/// Duration of the soak; the factor multiplies it.
const SECONDS: usize = 30;
const WORKERS: usize = 4;
/// The first part, in which everything permanent is created once.
const WARM_UP: u32 = 4;
/// The limits, two to four times the measured values: no more open files, 1 to 3 MiB more memory,
/// 4 MiB of WAL.
const FILES: u64 = 4;
const MEMORY_KIB: u64 = 6 * 1024;
/// It is written back from 1,000 pages on, when nothing waits.
const WAL_BYTES: u64 = 16 * 1024 * 1024;
/// A segment is closed at 16 MiB; one batch can exceed that.
const SEGMENT_BYTES: u64 = 18 * 1024 * 1024;

/// The resources of a group of processes and of the files at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Sample {
    /// Open files, and private memory in KiB: of the daemon, and of all runtimes,
    /// guards and agents together.
    held: BTreeMap<String, (u64, u64)>,
    processes: u64,
    segments: u64,
    journal: u64,
    wal: u64,
}

impl Sample {
    pub(crate) fn take(sandbox: &TestSandbox) -> Self {
        let mut sample = Self::default();
        for process in sandbox.processes() {
            if ["subagentd", "subagent-runtim", "subagent-guard"].contains(&process.name.as_str()) {
                let held = sample.held.entry(process.name.clone()).or_default();
                held.0 += open_files(&process);
                held.1 += private_memory(&process);
                sample.processes += 1;
            }
        }
        (sample.segments, sample.journal) = files_below(&sandbox.state_dir().join("runtimes"), ".journal");
        (_, sample.wal) = files_below(sandbox.state_dir(), "-wal");
        sample
    }

    /// Returns the resources that have grown beyond their limit.
    pub(crate) fn grown(&self, warm: &Self) -> Vec<String> {
        let mut grown = Vec::new();
        for (name, (files, memory)) in &self.held {
            let (warm_files, warm_memory) = warm.held.get(name).copied().unwrap_or_default();
            // A connection may be open at the moment of the sample.
            if *files > warm_files + FILES {
                grown.push(format!("{name} has {files} open files, {warm_files} after the warm-up"));
            }
            // The allocator keeps its memory.
            if *memory > warm_memory + warm_memory / 4 + MEMORY_KIB {
                grown.push(format!("{name} has {memory} KiB of its own, {warm_memory} after the warm-up"));
            }
        }
        if self.processes != warm.processes {
            grown.push(format!("{} processes, {} after the warm-up", self.processes, warm.processes));
        }
        // One per runtime (which has a guard): earlier ones are deleted once they are stored.
        let runtimes = self.processes / 2;
        if self.segments > runtimes {
            grown.push(format!("{} segments of journals of {runtimes} runtimes", self.segments));
        }
        if self.journal > self.segments * SEGMENT_BYTES {
            grown.push(format!("{} bytes of journals in {} segments", self.journal, self.segments));
        }
        if self.wal > WAL_BYTES {
            grown.push(format!("{} bytes of WAL", self.wal));
        }
        grown
    }
}

impl std::fmt::Display for Sample {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (name, (files, memory)) in &self.held {
            write!(f, "{name} {files} open files and {memory} KiB, ")?;
        }
        let Self { processes, segments, journal, wal, .. } = self;
        write!(f, "{processes} processes, {journal} bytes of journals in {segments} segments, {wal} of WAL")
    }
}

fn open_files(process: &Process) -> u64 {
    fs::read_dir(format!("/proc/{}/fd", process.pid)).map_or(0, |entries| entries.count() as u64)
}

fn private_memory(process: &Process) -> u64 {
    let text = fs::read_to_string(format!("/proc/{}/smaps_rollup", process.pid)).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("Private_Dirty:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// Returns the number of files with this ending, and their size.
fn files_below(folder: &std::path::Path, ending: &str) -> (u64, u64) {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.metadata() {
            Ok(meta) if meta.is_dir() => files_below(&entry.path(), ending),
            Ok(meta) if entry.file_name().to_string_lossy().ends_with(ending) => (1, meta.len()),
            _ => (0, 0),
        })
        .fold((0, 0), |(files, bytes), (more, longer)| (files + more, bytes + longer))
}

/// Works until then. Returns the number of turns.
pub(crate) fn work(sandbox: &TestSandbox, workers: &[String], until: Instant, name: &str) -> usize {
    thread::scope(|scope| {
        let managers: Vec<_> = workers
            .iter()
            .enumerate()
            .map(|(index, worker)| {
                scope.spawn(move || {
                    let mut turns = 0;
                    while Instant::now() < until {
                        let ask = if turns % 4 == 3 { "!ask execute it" } else { "" };
                        let big = if turns % 8 == 1 { "!flood 50 4096" } else { "" };
                        let prompt = format!("!chunks 10 text\n{ask}\n{big}\n!tool execute make\n!stream 50");
                        let end = sandbox.manage(worker, &format!("{name}-{index}-{turns}"), &prompt);
                        assert_eq!(end["type"], "turn.completed", "{end}");
                        turns += 1;
                        if turns % 16 == 0 {
                            let follower = sandbox.follow(worker);
                            follower.wait_line("an event", |line| line.contains("eventId").then_some(()));
                            let _ = follower.kill();
                            sandbox.run(&["worker", "restart", worker]).data_of("worker.restarted");
                        }
                    }
                    turns
                })
            })
            .collect();
        managers.into_iter().map(|manager| manager.join().unwrap()).sum()
    })
}

/// Takes a sample when nothing works: ending processes are gone and stored journals deleted.
pub(crate) fn at_rest(sandbox: &TestSandbox, workers: &[String]) -> Sample {
    let workers = workers.len() as u64;
    let is_over = |sample: &Sample| sample.processes == 1 + 2 * workers && sample.segments <= workers;
    let late = wait_while(Duration::from_secs(5), || Some(Sample::take(sandbox)).filter(|now| !is_over(now)));
    late.unwrap_or_else(|| Sample::take(sandbox))
}

#[test]
fn nothing_grows_while_the_work_goes_on() {
    let sandbox = TestSandbox::new();
    sandbox.recorder().knows_all_decisions();
    sandbox.init();
    let workers: Vec<String> = (0..WORKERS).map(|_| sandbox.start("demo")).collect();
    let lookout = sandbox.lookout();
    let all = Duration::from_secs(times(SECONDS) as u64);
    let begun = Instant::now();
    let mut turns = work(&sandbox, &workers, begun + all / WARM_UP, "warm");
    let warm = at_rest(&sandbox, &workers);
    let mut samples = 0;
    while begun.elapsed() < all {
        let until = Instant::now() + (all / 8).min(Duration::from_secs(60));
        turns += work(&sandbox, &workers, until, &format!("soak-{samples}"));
        let now = at_rest(&sandbox, &workers);
        assert_eq!(now.grown(&warm), Vec::<String>::new(), "warm: {warm}, now: {now}");
        samples += 1;
    }
    let (last, took) = (at_rest(&sandbox, &workers), begun.elapsed());
    sandbox.check();
    let _ = lookout.all_well();
    sandbox.finish();
    say(&format!("faults: soak of {took:?}, {turns} turns: after the warm-up {warm}, at the end {last}"));
}
