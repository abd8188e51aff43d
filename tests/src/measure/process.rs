//! Memory and wakeups of a process, as reported by the system.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use nix::time::{clock_getcpuclockid, clock_gettime};
use nix::unistd::Pid;

use crate::harness::process::Process;

/// Memory of a process, in kB.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Memory {
    /// Pages that only this process has and that it has changed.
    pub private_dirty: u64,
    /// Private memory, and the share of shared memory.
    pub proportional: u64,
}

/// Returns a process's memory; `None` if it has ended.
#[must_use]
pub fn memory(pid: i32) -> Option<Memory> {
    parse(&fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?)
}

fn parse(rollup: &str) -> Option<Memory> {
    Some(Memory { private_dirty: number(rollup, "Private_Dirty:")?, proportional: number(rollup, "Pss:")? })
}

/// Returns the processor time that a process has used; `None` if it has ended.
#[must_use]
pub fn cpu_time(pid: i32) -> Option<Duration> {
    let clock = clock_getcpuclockid(Pid::from_raw(pid)).ok()?;
    clock_gettime(clock).ok().map(Duration::from)
}

/// Returns private memory that belongs to no file, in kB; `None` if the process has ended.
#[must_use]
pub fn private(pid: i32) -> Option<u64> {
    number(&fs::read_to_string(format!("/proc/{pid}/status")).ok()?, "RssAnon:")
}

/// Returns how often each thread of a process was scheduled, voluntarily or not.
#[must_use]
pub fn context_switches(pid: i32) -> Switches {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let switches = tasks.filter_map(|task| {
        let thread = task.file_name().to_str()?.parse().ok()?;
        Some((thread, switches(&fs::read_to_string(task.path().join("status")).ok()?)))
    });
    Switches(switches.collect())
}

/// Context switches by thread id.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Switches(BTreeMap<i32, u64>);

impl Switches {
    /// Returns the switches between two measurements. Counts all of new threads; those of ended
    /// ones count at least their end.
    #[must_use]
    pub fn since(&self, before: &Self) -> u64 {
        let of = |thread| before.0.get(thread).copied().unwrap_or(0);
        let live: u64 = self.0.iter().map(|(thread, now)| now.saturating_sub(of(thread))).sum();
        let ended = before.0.keys().filter(|thread| !self.0.contains_key(thread)).count();
        live + ended as u64
    }
}

fn switches(status: &str) -> u64 {
    let of = |name| number(status, name).unwrap_or(0);
    of("voluntary_ctxt_switches:") + of("nonvoluntary_ctxt_switches:")
}

fn number(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Returns a command's peak memory, as `read` reads it. Reads it with each piece of output. There is much output
/// here, so the last reading is near the end.
///
/// # Panics
///
/// If the command cannot be run, or fails.
#[must_use]
pub fn peak_of(command: &mut Command, read: fn(&Process) -> u64) -> u64 {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let mut output = child.stdout.take().unwrap();
    let pid = i32::try_from(child.id()).unwrap();
    let (mut peak, mut buffer) = (0, vec![0; 64 * 1024]);
    while output.read(&mut buffer).unwrap() > 0 {
        peak = peak.max(Process::find(pid).map_or(0, |process| read(&process)));
    }
    assert!(child.wait().unwrap().success(), "{command:?}");
    peak
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rollup_is_read() {
        let text =
            "5500-7ffe [rollup]\nRss:  9 kB\nPss:     1204 kB\nPss_Dirty: 3 kB\nPrivate_Dirty:   276 kB\n";
        assert_eq!(parse(text), Some(Memory { private_dirty: 276, proportional: 1204 }));
        assert_eq!(parse("Rss: 9 kB\n"), None);
    }

    #[test]
    fn both_kinds_of_switches_count() {
        assert_eq!(switches("Threads:\t1\nvoluntary_ctxt_switches:\t5\nnonvoluntary_ctxt_switches:\t2\n"), 7);
    }

    #[test]
    fn threads_that_come_and_go_count() {
        let at = |threads: &[(i32, u64)]| Switches(threads.iter().copied().collect());
        let before = at(&[(1, 10), (2, 5)]);
        assert_eq!(before.since(&before), 0);
        assert_eq!(at(&[(1, 12), (2, 5)]).since(&before), 2);
        assert_eq!(at(&[(1, 10), (2, 5), (3, 4)]).since(&before), 4, "a new one");
        assert_eq!(at(&[(1, 10)]).since(&before), 1, "one has ended");
    }

    #[test]
    fn this_process_has_memory_and_was_woken() {
        let me = i32::try_from(std::process::id()).unwrap();
        assert!(memory(me).unwrap().proportional > 0 && private(me).unwrap() > 0);
        assert!(context_switches(me).since(&Switches::default()) > 0);
    }
}
