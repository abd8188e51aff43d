//! Processes as `/proc` shows them, and which of them belong to a sandbox.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::time::Duration;

use memchr::memmem;
use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::{Pid, SysconfVar, sysconf};

use super::wait::poll;

/// Maximum time for the system to end a process that has released its locks.
const EXIT_TIME: Duration = Duration::from_secs(1);

/// Time limit for a process to stop.
const STOPS: Duration = Duration::from_secs(5);
/// The variable in the environment of all commands of a sandbox and of everything they start.
pub const MARKER: &str = "TEST_SANDBOX_ID";

/// A process at the time of the check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// The id of the process.
    pub pid: i32,
    /// The pid of its parent.
    pub parent: i32,
    /// Its name, at most 15 bytes.
    pub name: String,
    /// `R`, `S`, `T` (stopped), `Z` (ended, not reaped), ...
    pub state: char,
    /// In clock ticks since boot.
    pub start_time: u64,
}

impl Process {
    /// Returns the process with this pid, unless it does not exist or has ended.
    #[must_use]
    pub fn find(pid: i32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name is in parentheses and may contain anything, including parentheses.
        let (head, tail) = stat.rsplit_once(')')?;
        let name = head.split_once('(')?.1.to_owned();
        let fields: Vec<&str> = tail.split_whitespace().collect();
        let state = fields.first()?.chars().next()?;
        let parent = fields.get(1)?.parse().ok()?;
        let start_time = fields.get(19)?.parse().ok()?;
        let threads: usize = fields.get(17)?.parse().ok()?;
        // A zombie whose last thread has ended does and holds nothing. The process that must reap
        // it may be outside the test.
        (!matches!(state, 'Z' | 'X') || threads > 1).then_some(Self { pid, parent, name, state, start_time })
    }

    /// Whether it still runs.
    #[must_use]
    pub fn lives(&self) -> bool {
        Self::find(self.pid).is_some_and(|now| now.start_time == self.start_time)
    }

    /// Whether it ends now. The system closes its files, and so releases its locks, shortly before its end.
    #[must_use]
    pub fn ends(&self) -> bool {
        poll(EXIT_TIME, || (!self.lives()).then_some(())).is_some()
    }

    /// Sends it a signal, unless it has ended. After a stop signal it waits until the process has
    /// stopped: the system stops it only when it is scheduled.
    ///
    /// # Panics
    ///
    /// If the signal cannot be sent for another reason.
    pub fn signal(&self, signal: Signal) {
        if self.lives() {
            match kill(Pid::from_raw(self.pid), signal) {
                Ok(()) | Err(Errno::ESRCH) => {}
                Err(error) => panic!("cannot send {signal} to {self:?}: {error}"),
            }
        }
        if signal == Signal::SIGSTOP {
            let runs = |now: &Self| now.start_time == self.start_time && !matches!(now.state, 'T' | 't');
            // Best effort: in a crowd another test may continue it at once.
            poll(STOPS, || if Self::find(self.pid).is_some_and(|now| runs(&now)) { None } else { Some(()) });
        }
    }

    /// Returns its child processes.
    #[must_use]
    pub fn children(&self) -> Vec<Self> {
        all().into_iter().filter(|process| process.parent == self.pid).collect()
    }

    /// Returns its command line, for display.
    #[must_use]
    pub fn command_line(&self) -> String {
        let bytes = fs::read(format!("/proc/{}/cmdline", self.pid)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).trim_end_matches('\0').replace('\0', " ")
    }

    /// Returns its peak memory in KiB; 0 if that is unknown.
    #[must_use]
    pub fn peak_memory_kib(&self) -> u64 {
        self.status_kib("VmHWM:")
    }

    /// Returns its peak memory in KiB without its files, most of which are its executable; 0 if that
    /// is unknown.
    #[must_use]
    pub fn peak_of_its_own_kib(&self) -> u64 {
        self.status_kib("VmHWM:").saturating_sub(self.status_kib("RssFile:"))
    }

    fn status_kib(&self, key: &str) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid)).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix(key));
        line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
    }
}

/// Returns all visible processes.
#[must_use]
pub fn all() -> Vec<Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| Process::find(entry.file_name().to_str()?.parse().ok()?)).collect()
}

/// Returns the present time in the unit of [`Process::start_time`], at most one tick too early.
///
/// # Panics
///
/// If the system does not return the time.
#[must_use]
pub fn now() -> u64 {
    let ticks = u64::try_from(sysconf(SysconfVar::CLK_TCK).unwrap().unwrap()).unwrap();
    let since_boot = Duration::from(clock_gettime(ClockId::CLOCK_BOOTTIME).unwrap());
    let count = since_boot.as_secs() * ticks + u64::from(since_boot.subsec_nanos()) * ticks / 1_000_000_000;
    count.saturating_sub(1)
}

/// Returns the processes of a sandbox created at `born` ([`now`] at its creation, or 0). These
/// have its marker, its folder on their command line, or (our executables) an open file in it.
/// Includes all their descendants.
#[must_use]
pub fn of_sandbox(id: &str, born: u64, root: &Path, executables: &Path) -> Vec<Process> {
    let mut all = all();
    // Most processes of a machine are older, and reading an environment is expensive.
    all.retain(|process| process.start_time >= born);
    let me = i32::try_from(std::process::id()).unwrap();
    let mut found: BTreeSet<i32> = all
        .iter()
        .map(|process| process.pid)
        .filter(|pid| *pid != me && (is_marked(*pid, id, root) || is_ours(*pid, root, executables)))
        .collect();
    let parents: BTreeMap<i32, i32> = all.iter().map(|process| (process.pid, process.parent)).collect();
    for process in &all {
        let ancestors = std::iter::successors(Some(process.pid), |pid| parents.get(pid).copied());
        if ancestors.take_while(|pid| *pid > 1 && *pid != me).any(|pid| found.contains(&pid)) {
            found.insert(process.pid);
        }
    }
    all.into_iter().filter(|process| found.contains(&process.pid)).collect()
}

fn is_marked(pid: i32, id: &str, root: &Path) -> bool {
    let contains = |file: &str, needle: &[u8]| {
        let bytes = fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
        memmem::find(&bytes, needle).is_some()
    };
    contains("environ", format!("{MARKER}={id}\0").as_bytes())
        || contains("cmdline", root.as_os_str().as_encoded_bytes())
}

/// For processes with another environment: a runtime, a guard.
fn is_ours(pid: i32, root: &Path, executables: &Path) -> bool {
    let below = |link: &Path, folder: &Path| fs::read_link(link).is_ok_and(|path| path.starts_with(folder));
    if !below(Path::new(&format!("/proc/{pid}/exe")), executables) {
        return false;
    }
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    below(Path::new(&format!("/proc/{pid}/cwd")), root)
        || descriptors.into_iter().any(|entry| below(&entry.path(), root))
}
