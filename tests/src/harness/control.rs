//! Access to the processes of a sandbox: finding, stopping and killing them, and gates
//! for the agent's turns.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::signal::Signal;
use subagent_protocol::api::DaemonInfo;

use super::process::Process;
use super::sandbox::TestSandbox;
use super::wait::wait_until;

/// Time limit for a process to appear or end.
const DEADLINE: Duration = Duration::from_secs(10);

/// Time limit of the start of an agent, perhaps elsewhere, with its first prompt.
const PROMPT: Duration = Duration::from_secs(60);

/// A file that a turn waits for (`!wait-file`).
#[derive(Debug)]
pub struct Gate {
    path: PathBuf,
}

impl Gate {
    /// Returns the directive that waits for the file.
    #[must_use]
    pub fn directive(&self) -> String {
        format!("!wait-file {}", self.path.display())
    }

    /// Returns the path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Lets the turn continue.
    ///
    /// # Panics
    ///
    /// If the file cannot be created.
    pub fn open(&self) {
        fs::write(&self.path, "").unwrap();
    }
}

impl TestSandbox {
    /// Waits until the prompts of a number of turns were given to agents.
    pub fn wait_for_prompt(&self, number: u64) {
        let dispatched =
            format!("SELECT count(*) >= {number} FROM events WHERE type = 'runtime.turn_dispatching'");
        wait_until("the prompt", PROMPT, || (self.number(&dispatched) > 0).then_some(()));
    }

    /// Waits until `worker logs` of a worker ends with a text, and returns all of it. The log is another
    /// stream than the messages of the agent.
    pub fn wait_for_log(&self, worker: &str, end: &str) -> String {
        wait_until("the end of the log", PROMPT, || {
            let shown = self.run(&["worker", "logs", worker]).data_of("worker.logs");
            shown["text"].as_str().filter(|text| text.ends_with(end)).map(str::to_owned)
        })
    }

    /// Returns a gate with this name.
    #[must_use]
    pub fn gate(&self, name: &str) -> Gate {
        Gate { path: self.file(&format!("gate-{name}")) }
    }

    /// Returns how often a turn executed `!touch` with this file.
    #[must_use]
    pub fn touches(&self, file: &str) -> usize {
        fs::read_to_string(self.file(file)).unwrap_or_default().lines().count()
    }

    /// Waits until a worker's runtime has recorded a session in this segment of its journal. The
    /// runtime does that without a daemon too.
    ///
    /// # Panics
    ///
    /// If no runtime does.
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

    /// Returns the content of `daemon.json`, if it exists.
    #[must_use]
    pub fn daemon_info(&self) -> Option<DaemonInfo> {
        serde_json::from_slice(&fs::read(self.state_dir().join("daemon.json")).ok()?).ok()
    }

    /// Returns the daemon, if it runs.
    #[must_use]
    pub fn find_daemon(&self) -> Option<Process> {
        let known = self.daemon_info()?.process;
        Process::find(known.pid).filter(|process| process.start_time == known.start_time)
    }

    /// Returns the running daemon.
    ///
    /// # Panics
    ///
    /// If no daemon is running.
    #[must_use]
    #[track_caller]
    pub fn daemon(&self) -> Process {
        wait_until("a daemon that daemon.json names", DEADLINE, || self.find_daemon())
    }

    /// Returns the runtime of a worker.
    ///
    /// # Panics
    ///
    /// If the worker has none.
    #[must_use]
    #[track_caller]
    pub fn runtime(&self, worker: &str) -> Process {
        wait_until("a live runtime of the worker", DEADLINE, || {
            let pid = self.show(worker)["runtimePid"].as_i64()?;
            Process::find(i32::try_from(pid).ok()?)
        })
    }

    /// Returns the guard below a runtime.
    ///
    /// # Panics
    ///
    /// If the runtime has none.
    #[must_use]
    #[track_caller]
    pub fn guard(&self, runtime: &Process) -> Process {
        wait_until("a guard below the runtime", DEADLINE, || {
            runtime.children().into_iter().find(|child| child.name == "subagent-guard")
        })
    }

    /// Returns the agent below a guard.
    ///
    /// # Panics
    ///
    /// If the guard has none.
    #[must_use]
    #[track_caller]
    pub fn agent(&self, guard: &Process) -> Process {
        wait_until("an agent below the guard", DEADLINE, || guard.children().into_iter().next())
    }

    /// Kills a process and waits for its end.
    ///
    /// # Panics
    ///
    /// If the process does not end.
    #[track_caller]
    pub fn kill(&self, process: &Process) {
        process.signal(Signal::SIGKILL);
        wait_until("the killed process to be gone", DEADLINE, || (!process.lives()).then_some(()));
    }

    /// Kills the daemon and waits for its end.
    ///
    /// # Panics
    ///
    /// If no daemon is running.
    #[track_caller]
    pub fn kill_daemon(&self) {
        self.kill(&self.daemon());
    }
}
