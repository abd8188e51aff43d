//! Measures the memory of the processes below a guard. Linux only. Best effort, as processes start
//! and end meanwhile. Must not signal processes.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::io::Read as _;
use std::path::Path;

use subagent_config::proc;
use subagent_protocol::process::ProcessId;

use super::stray_processes::pids;

/// Maximum number of processes that are measured. Each measurement walks a process's memory map.
const MAX_PROCESSES: usize = 1000;
/// Maximum size of `smaps_rollup` and `status`.
const FILE_BYTES: u64 = 16 * 1024;

/// Returns the memory of all processes below the guard, in bytes. `None` if there are none.
pub(crate) async fn below(guard: ProcessId) -> Option<u64> {
    // A measurement takes milliseconds per process, so it runs on a blocking thread.
    tokio::task::spawn_blocking(move || sum_below(guard)).await.ok().flatten()
}

fn sum_below(guard: ProcessId) -> Option<u64> {
    let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
    for process in pids().filter_map(|pid| proc::process(pid).ok()) {
        children.entry(process.parent).or_default().push(process.pid);
    }
    // Another process may have the pid by now.
    if proc::start_time(guard.pid).ok()? != guard.start_time {
        return None;
    }
    let (mut seen, mut next) = (BTreeSet::new(), vec![guard.pid]);
    while let Some(parent) = next.pop() {
        for child in children.remove(&parent).unwrap_or_default() {
            if seen.len() < MAX_PROCESSES && seen.insert(child) {
                next.push(child);
            }
        }
    }
    let used: Vec<u64> = seen.into_iter().filter_map(used).collect();
    (!used.is_empty()).then(|| used.iter().sum())
}

/// Returns the memory of one process in bytes: its proportional share (PSS), so that a sum counts
/// shared pages once. Falls back to its resident set if the share may not be read.
fn used(pid: i32) -> Option<u64> {
    let folder = Path::new("/proc").join(pid.to_string());
    let share = kilobytes(&folder.join("smaps_rollup"), "Pss:");
    share.or_else(|| kilobytes(&folder.join("status"), "VmRSS:")).map(|kilobytes| kilobytes * 1024)
}

fn kilobytes(file: &Path, name: &str) -> Option<u64> {
    let mut text = String::new();
    fs::File::open(file).ok()?.take(FILE_BYTES).read_to_string(&mut text).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn the_memory_below_a_process_is_that_of_its_descendants() {
        let pid = i32::try_from(std::process::id()).unwrap();
        let own = ProcessId { pid, start_time: proc::start_time(pid).unwrap() };
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let below = sum_below(own).unwrap();
        assert!((1024..1024 * 1024 * 1024).contains(&below), "{below}");
        let alone = used(i32::try_from(child.id()).unwrap()).unwrap();
        assert!(alone > 0 && alone <= below.max(alone));
        drop(child.stdin.take());
        child.wait().unwrap();
        assert_eq!(sum_below(ProcessId { start_time: own.start_time + 1, ..own }), None, "another process");
        assert_eq!(kilobytes(Path::new("/proc/self/status"), "VmNothing:"), None);
    }
}
