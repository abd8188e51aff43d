//! Work that goes on: open files, memory, processes, journal and WAL stay within a bound after a warm-up.

use std::collections::BTreeMap;
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use subagent_tests::harness::process::Process;
use subagent_tests::harness::{Sandbox, say, times, wait_until};

/// How long; the factor multiplies it.
const SECONDS: usize = 30;
const WORKERS: usize = 4;
/// The first part, in which everything that is kept is made once.
const WARM_UP: u32 = 4;

/// What a group of processes and the files hold at a moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Sample {
    /// For the daemon, and for all runtimes, guards and agents together: open files, private memory in KiB.
    held: BTreeMap<String, (u64, u64)>,
    processes: u64,
    journal: u64,
    wal: u64,
}

impl Sample {
    pub(crate) fn take(sandbox: &Sandbox) -> Self {
        let mut sample = Self::default();
        for process in sandbox.processes() {
            if ["subagentd", "subagent-runtim", "subagent-guard"].contains(&process.name.as_str()) {
                let held = sample.held.entry(process.name.clone()).or_default();
                held.0 += open_files(&process);
                held.1 += private_memory(&process);
                sample.processes += 1;
            }
        }
        sample.journal = size_below(&sandbox.state_dir().join("runtimes"), ".journal");
        sample.wal = size_below(sandbox.state_dir(), "-wal");
        sample
    }

    /// What has grown beyond what this one may grow to.
    pub(crate) fn grown(&self, warm: &Self) -> Vec<String> {
        let mut grown = Vec::new();
        for (name, (files, memory)) in &self.held {
            let (warm_files, warm_memory) = warm.held.get(name).copied().unwrap_or_default();
            // A few connections may be open at the moment of looking.
            if *files > warm_files + 24 {
                grown.push(format!("{name} has {files} open files, {warm_files} after the warm-up"));
            }
            // The allocator keeps what it had; a debug build is not small.
            if *memory > warm_memory + warm_memory / 2 + 16 * 1024 {
                grown.push(format!("{name} has {memory} KiB of its own, {warm_memory} after the warm-up"));
            }
        }
        if self.processes > warm.processes {
            grown.push(format!("{} processes, {} after the warm-up", self.processes, warm.processes));
        }
        // A segment has 16 MiB and is deleted as soon as the next one was begun and stored.
        let most = WORKERS as u64 * 40 * 1024 * 1024;
        if self.journal > most {
            grown.push(format!("{} bytes of journals", self.journal));
        }
        // 16,384 pages, and what one batch adds.
        if self.wal > 80 * 1024 * 1024 {
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
        write!(f, "{} processes, {} bytes of journals, {} of WAL", self.processes, self.journal, self.wal)
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

fn size_below(folder: &std::path::Path, ending: &str) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.metadata() {
            Ok(meta) if meta.is_dir() => size_below(&entry.path(), ending),
            Ok(meta) if entry.file_name().to_string_lossy().ends_with(ending) => meta.len(),
            _ => 0,
        })
        .sum()
}

/// Works on until then; gives the number of turns.
pub(crate) fn work(sandbox: &Sandbox, workers: &[String], until: Instant, name: &str) -> usize {
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

/// A sample when nothing works: what ends does so within moments.
pub(crate) fn at_rest(sandbox: &Sandbox, workers: &[String]) -> Sample {
    wait_until("one runtime and one guard for each worker", Duration::from_secs(10), || {
        let sample = Sample::take(sandbox);
        (sample.processes == 1 + 2 * workers.len() as u64).then_some(sample)
    })
}

#[test]
fn nothing_grows_while_the_work_goes_on() {
    let sandbox = Sandbox::new();
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
