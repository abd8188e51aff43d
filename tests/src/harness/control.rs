//! Hands on the processes of a sandbox: finding, stopping and killing them, and gates for the agent's turns.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::signal::Signal;
use subagent_protocol::api::DaemonInfo;

use super::process::Process;
use super::sandbox::Sandbox;
use super::wait::wait_until;

/// For a process to be there or gone.
const DEADLINE: Duration = Duration::from_secs(10);

/// A file that a turn waits for (`!wait-file`).
#[derive(Debug)]
pub struct Gate {
    path: PathBuf,
}

impl Gate {
    /// The directive that waits here.
    #[must_use]
    pub fn directive(&self) -> String {
        format!("!wait-file {}", self.path.display())
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Lets the turn go on.
    ///
    /// # Panics
    /// When the file cannot be made.
    pub fn open(&self) {
        fs::write(&self.path, "").unwrap();
    }
}

impl Sandbox {
    /// A gate of this name.
    #[must_use]
    pub fn gate(&self, name: &str) -> Gate {
        Gate { path: self.file(&format!("gate-{name}")) }
    }

    /// How often a turn executed `!touch` with this file.
    #[must_use]
    pub fn touches(&self, file: &str) -> usize {
        fs::read_to_string(self.file(file)).unwrap_or_default().lines().count()
    }

    /// Waits until a worker's runtime has written into this segment of its journal that the agent has a session, which it does
    /// without a daemon too.
    ///
    /// # Panics
    /// When none does.
    #[track_caller]
    pub fn wait_for_session_in(&self, segment: u64) {
        let runtimes = self.state_dir().join("runtimes");
        wait_until("a session in a journal", DEADLINE, || {
            let folders = fs::read_dir(&runtimes).ok()?;
            let mut journals = folders
                .filter_map(|folder| fs::read(folder.ok()?.path().join(format!("{segment}.journal"))).ok());
            journals.any(|text| String::from_utf8_lossy(&text).contains(r#""t":"session""#)).then_some(())
        });
    }

    /// What `daemon.json` says, if it is there.
    #[must_use]
    pub fn daemon_info(&self) -> Option<DaemonInfo> {
        serde_json::from_slice(&fs::read(self.state_dir().join("daemon.json")).ok()?).ok()
    }

    /// The daemon, if it lives.
    #[must_use]
    pub fn find_daemon(&self) -> Option<Process> {
        let known = self.daemon_info()?.process;
        Process::find(known.pid).filter(|process| process.start_time == known.start_time)
    }

    /// The daemon.
    ///
    /// # Panics
    /// When there is none.
    #[must_use]
    #[track_caller]
    pub fn daemon(&self) -> Process {
        wait_until("a daemon that daemon.json names", DEADLINE, || self.find_daemon())
    }

    /// The runtime of a worker.
    ///
    /// # Panics
    /// When the worker has none.
    #[must_use]
    #[track_caller]
    pub fn runtime(&self, worker: &str) -> Process {
        wait_until("a live runtime of the worker", DEADLINE, || {
            let pid = self.show(worker)["runtimePid"].as_i64()?;
            Process::find(i32::try_from(pid).ok()?)
        })
    }

    /// The guard below a runtime.
    ///
    /// # Panics
    /// When it has none.
    #[must_use]
    #[track_caller]
    pub fn guard(&self, runtime: &Process) -> Process {
        wait_until("a guard below the runtime", DEADLINE, || {
            runtime.children().into_iter().find(|child| child.name == "subagent-guard")
        })
    }

    /// The agent below a guard.
    ///
    /// # Panics
    /// When it has none.
    #[must_use]
    #[track_caller]
    pub fn agent(&self, guard: &Process) -> Process {
        wait_until("an agent below the guard", DEADLINE, || guard.children().into_iter().next())
    }

    /// Kills a process and waits until it is gone.
    ///
    /// # Panics
    /// When it does not go.
    #[track_caller]
    pub fn kill(&self, process: &Process) {
        process.signal(Signal::SIGKILL);
        wait_until("the killed process to be gone", DEADLINE, || (!process.lives()).then_some(()));
    }

    /// Kills the daemon and waits until it is gone.
    ///
    /// # Panics
    /// When there is none.
    #[track_caller]
    pub fn kill_daemon(&self) {
        self.kill(&self.daemon());
    }
}
