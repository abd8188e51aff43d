//! The end of a sandbox: stops everything, checks every invariant, and leaves nothing.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::signal::Signal;
use tempfile::TempDir;

use super::command::Command;
use super::output::Output;
use super::process::Process;
use super::sandbox::TestSandbox;
use super::ssh_host::PLACED_THERE;
use super::wait::wait_while;
use crate::invariants::{self, Evidence};

/// Time limit for the last process to end.
const NOTHING_LEFT: Duration = Duration::from_secs(5);
/// Maximum number of controllers with handles of their own in a test.
const MAX_CONTROLLERS: usize = 8;
/// Bytes of each log shown after a failure.
const LOG_TAIL: usize = 6000;

/// Evidence of a finished sandbox. Dropping it removes the folder.
#[derive(Debug)]
pub struct Finished {
    /// The data on which the invariants were checked.
    pub evidence: Evidence,
    /// The folder of the sandbox.
    pub root: TempDir,
}

impl TestSandbox {
    /// Stops the workers and the daemon, and checks every invariant.
    ///
    /// # Panics
    ///
    /// If an invariant is violated, a process is left, or the stop fails.
    #[track_caller]
    pub fn finish(mut self) -> Finished {
        let (evidence, violations) = self.end();
        assert!(violations.is_empty(), "violated:\n{}\n{}", violations.join("\n"), self.logs());
        Finished { evidence, root: self.root.take().unwrap() }
    }

    /// Like [`TestSandbox::finish`] for a deliberately broken product. Returns the violations.
    ///
    /// # Panics
    ///
    /// If a command's output violates the contract.
    #[must_use]
    pub fn finish_broken(self) -> Vec<String> {
        self.end().1
    }

    fn end(&self) -> (Evidence, Vec<String>) {
        let mut violations = Vec::new();
        let started = !self.recorder.acknowledged().started.is_empty();
        let workers = started || self.state_dir().join("runtimes").exists();
        if workers {
            // Regardless of earlier kills, a daemon must be able to find and end everything.
            let _ = self.run(&["worker", "list"]).data_of("worker.listed");
        }
        if workers || self.find_daemon().is_some() {
            let args: &[&str] = if workers { &["stop", "--workers", "--json"] } else { &["stop", "--json"] };
            let mut stopped = self.command("subagentd").args(args).run();
            // Each controller may require its own handle.
            for _ in 0..MAX_CONTROLLERS {
                let Some(controller) = wanted_owner(&stopped) else { break };
                if !controller.is_empty() {
                    self.stop_workers_of(&controller);
                }
                stopped = self.owned("subagentd", None).args(args).run();
            }
            if stopped.status.code() != Some(0) {
                violations.push(format!("the end failed: {stopped}"));
            }
        }
        let left = wait_while(NOTHING_LEFT, || Some(self.processes()).filter(|left| !left.is_empty()));
        for process in left.into_iter().flatten() {
            violations.push(format!("left running: {process:?}: {}", process.command_line()));
        }
        let evidence = self.evidence(true);
        violations.extend(invariants::check(&evidence));
        (evidence, violations)
    }

    /// Returns a command with the handle of a new owner of this controller, or of the workspace's.
    fn owned(&self, program: &str, controller: Option<&str>) -> Command {
        let mut attach = vec!["controller", "attach", "--takeover"];
        attach.extend(controller.into_iter().flat_map(|id| ["--controller-id", id]));
        let owner = &self.run(&attach).data_of("controller.attached")["owner"];
        ["ID", "EPOCH", "TOKEN"].into_iter().zip(["controllerId", "epoch", "token"]).fold(
            self.command(program),
            |command, (name, key)| {
                let value = owner[key].as_str().map_or_else(|| owner[key].to_string(), str::to_owned);
                command.env(format!("SUBAGENT_CTL_{name}"), value)
            },
        )
    }

    /// Stops the live workers of a controller with another handle. The end detects failures.
    fn stop_workers_of(&self, controller: &str) {
        let listed = self.run(&["worker", "list", "--controller-id", controller, "--json"]);
        let items = listed.document()["data"]["items"].take();
        for worker in items.as_array().into_iter().flatten().filter(|worker| worker["state"] != "stopped") {
            let id = worker["workerId"].as_str().unwrap_or_default();
            let _ = self.owned("subagent", Some(controller)).args(["worker", "stop", id, "--json"]).run();
        }
    }

    /// Checks the invariants that hold at any time, also during a test.
    ///
    /// # Panics
    ///
    /// If a violation persists for some seconds: consequences of a kill may take a moment.
    #[track_caller]
    pub fn check(&self) {
        let violations = self.violations();
        assert!(violations.is_empty(), "violated:\n{}\n{}", violations.join("\n"), self.logs());
    }

    /// Returns the violations that persist for some seconds.
    #[must_use]
    pub fn violations(&self) -> Vec<String> {
        wait_while(NOTHING_LEFT, || {
            Some(invariants::check(&self.evidence(false))).filter(|violations| !violations.is_empty())
        })
        .unwrap_or_default()
    }

    /// The folders of placed workers on hosts, on the disk that the nodes of a cluster share, and
    /// on the disks of pods.
    fn placed_there(&self) -> Vec<PathBuf> {
        let below = |folder: &Path, name: &str| -> Vec<PathBuf> {
            let entries = fs::read_dir(folder).into_iter().flatten().flatten();
            entries.map(|entry| entry.path().join(name)).filter(|path| path.is_dir()).collect()
        };
        let mut there = below(self.path(), PLACED_THERE);
        there.extend(self.disks.iter().flat_map(|disks| below(disks, "placed")));
        there.push(self.file("shared"));
        there
    }

    pub(super) fn evidence(&self, ended: bool) -> Evidence {
        Evidence {
            state_dir: self.state_dir().to_owned(),
            there: self.placed_there(),
            socket_folders: vec![self.file("run/subagent")],
            acknowledged: self.recorder.acknowledged(),
            ended,
        }
    }

    /// Returns the ends of all logs and the stored state, for display.
    #[must_use]
    pub fn logs(&self) -> String {
        let mut text = invariants::describe(&self.evidence(false));
        for folder in ["logs", "runtimes"] {
            append_logs(&self.state_dir().join(folder), &mut text);
        }
        for process in self.processes() {
            text.push_str(&format!("--- process {process:?}: {}\n", process.command_line()));
        }
        text
    }
}

/// Returns the controller whose owner's handle is required; an empty text means
/// that of the workspace.
fn wanted_owner(stopped: &Output) -> Option<String> {
    if stopped.status.success() {
        return None;
    }
    let error = &stopped.document()["error"];
    let controller = error["details"]["targetControllerId"].as_str().unwrap_or_default();
    (error["code"] == "INVALID_CONTROLLER_HANDLE").then(|| controller.to_owned())
}

fn append_logs(folder: &Path, text: &mut String) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            append_logs(&path, text);
        } else if path.is_file() && path.extension().is_none_or(|end| end != "journal") {
            let bytes = fs::read(&path).unwrap_or_default();
            if !bytes.is_empty() {
                let tail =
                    String::from_utf8_lossy(&bytes[bytes.len().saturating_sub(LOG_TAIL)..]).into_owned();
                text.push_str(&format!("--- {}\n{tail}\n", path.display()));
            }
        }
    }
}

impl Drop for TestSandbox {
    /// Kills everything. A finished sandbox has nothing to kill.
    fn drop(&mut self) {
        let Some(root) = &self.root else { return };
        if std::thread::panicking() {
            // A failure to describe must neither end the other tests of this process nor
            // hide the original failure.
            match std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| self.logs())) {
                Ok(logs) => eprintln!("{logs}"),
                Err(_) => eprintln!("what is left of this test cannot be described"),
            }
        }
        let (id, path) = (&self.id, root.path());
        let look = || Some(super::process::of_sandbox(id, self.born, path, self.executables.folder()));
        // Stops all first, so that none starts another one meanwhile.
        let end = |process: &Process| {
            process.signal(Signal::SIGSTOP);
            process.signal(Signal::SIGKILL);
        };
        let left = wait_while(NOTHING_LEFT, || {
            look().filter(|left| !left.is_empty()).inspect(|left| left.iter().for_each(end))
        });
        if let Some(left) = left {
            eprintln!("could not be killed: {left:?}");
        }
    }
}
