//! Watches a sandbox continuously while others break it. Temporary inconsistencies must not last.

// Two guarantees have a time limit. A worker may not be reported as running (or gone) for longer
// without (or with) a live runtime. No process of an agent may outlive its runtime and guard by
// more. It only reads the database and `/proc`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::process::{Process, of_sandbox};
use super::sandbox::TestSandbox;
use crate::invariants::{self, Evidence};

/// Time between two checks.
const PERIOD: Duration = Duration::from_millis(200);
/// A condition that lasts longer is a violation.
const GRACE: Duration = Duration::from_secs(5);

/// A lookout during its checks.
#[derive(Debug)]
pub struct Lookout {
    over: mpsc::Sender<()>,
    seen: Arc<AtomicBool>,
    grace: Duration,
    thread: JoinHandle<LookoutReport>,
}

/// The result of a lookout.
#[derive(Debug, Default)]
pub struct LookoutReport {
    /// Conditions that lasted too long.
    pub violations: BTreeSet<String>,
    /// The number of checks.
    pub looks: usize,
    /// The longest time that an agent's process existed without runtime and guard.
    pub longest_stray: Duration,
}

impl TestSandbox {
    /// Starts the checks in a thread. What lasts longer than 5 s is a violation.
    ///
    /// # Panics
    ///
    /// If no thread can be started.
    #[must_use]
    pub fn lookout(&self) -> Lookout {
        self.lookout_for(GRACE)
    }

    /// The same with another time limit.
    ///
    /// # Panics
    ///
    /// If no thread can be started.
    #[must_use]
    pub fn lookout_for(&self, grace: Duration) -> Lookout {
        let (over, heard) = mpsc::channel();
        let seen = Arc::new(AtomicBool::new(false));
        let place = SandboxObserver {
            seen: Arc::clone(&seen),
            grace,
            evidence: self.evidence(false),
            id: self.id.clone(),
            born: self.born,
            root: self.path().to_owned(),
            executables: self.executables.folder().to_owned(),
        };
        Lookout { over, seen, grace, thread: thread::spawn(move || place.look_until(&heard)) }
    }
}

impl Lookout {
    /// Whether a condition has lasted too long by now.
    #[must_use]
    pub fn seen(&self) -> bool {
        self.seen.load(Ordering::Relaxed)
    }

    /// Stops the checks and returns the result.
    ///
    /// # Panics
    ///
    /// If it could not check.
    #[must_use]
    pub fn end(self) -> LookoutReport {
        drop(self.over);
        self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    /// Stops the checks and asserts that there were no violations.
    ///
    /// # Panics
    ///
    /// If there was a violation.
    #[track_caller]
    pub fn all_well(self) -> LookoutReport {
        let grace = self.grace;
        let report = self.end();
        assert!(report.violations.is_empty(), "lasted for more than {grace:?}: {:#?}", report.violations);
        report
    }
}

struct SandboxObserver {
    seen: Arc<AtomicBool>,
    grace: Duration,
    evidence: Evidence,
    id: String,
    born: u64,
    root: PathBuf,
    executables: PathBuf,
}

impl SandboxObserver {
    fn look_until(&self, over: &mpsc::Receiver<()>) -> LookoutReport {
        let mut since: BTreeMap<String, Instant> = BTreeMap::new();
        let mut report = LookoutReport::default();
        while over.recv_timeout(PERIOD) == Err(RecvTimeoutError::Timeout) {
            let seen = self.look();
            let now = Instant::now();
            since.retain(|what, _| seen.contains(what));
            for what in seen {
                let begun = *since.entry(what.clone()).or_insert(now);
                if what.starts_with(STRAY) {
                    report.longest_stray = report.longest_stray.max(now - begun);
                }
                if now - begun > self.grace {
                    report.violations.insert(what);
                    self.seen.store(true, Ordering::Relaxed);
                }
            }
            report.looks += 1;
        }
        report
    }

    fn look(&self) -> BTreeSet<String> {
        let all = of_sandbox(&self.id, self.born, &self.root, &self.executables);
        let mut seen: BTreeSet<String> =
            strays(&all).map(|process| format!("{STRAY} {}", process.command_line())).collect();
        // Only a daemon can change these statements; each daemon gets the whole time limit.
        let daemon = all.iter().find(|process| process.name == "subagentd" && process.state != 'T');
        if let Some(daemon) = daemon {
            let said = invariants::check_runtimes(&self.evidence).into_iter();
            seen.extend(said.map(|what| format!("{what} (daemon {}.{})", daemon.pid, daemon.start_time)));
        }
        seen
    }
}

/// Prefix of a stray process in a report.
const STRAY: &str = "without runtime and guard:";

/// Returns processes that are neither ours nor below a runtime, a guard or this process.
fn strays(all: &[Process]) -> impl Iterator<Item = &Process> {
    let me = i32::try_from(std::process::id()).unwrap();
    let ours = |process: &Process| process.name.starts_with("subagent-") || process.name == "subagentd";
    all.iter().filter(move |process| {
        let mut above = Some(*process);
        while let Some(now) = above {
            if ours(now) || now.parent == me {
                return false;
            }
            above = all.iter().find(|other| other.pid == now.parent);
        }
        true
    })
}
