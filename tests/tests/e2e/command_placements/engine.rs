//! An engine behind commands of the user, for one test: a script whose places are folders with a process.
//! Dropping it asserts that no place is left.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use subagent_tests::harness::{TestSandbox, wait_until, wait_while};
use tempfile::TempDir;

pub(super) const DEADLINE: Duration = Duration::from_secs(60);
const SCRIPT: &str = include_str!("engine.sh");

pub(super) struct OwnEngine {
    /// Outside of the sandbox, which regards a process with its path as its own.
    folder: TempDir,
}

impl OwnEngine {
    /// Writes the script, and adds the placement `own` to the config file of the sandbox's user.
    pub(super) fn start(sandbox: &TestSandbox) -> Self {
        let folder = tempfile::Builder::new().prefix("own-").tempdir_in("/tmp").unwrap();
        for name in ["places", "home"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        let executables = sandbox.executable("subagent-runtime");
        let executables = Path::new(&executables).parent().unwrap();
        fs::write(folder.path().join("path"), executables.to_str().unwrap()).unwrap();
        let engine = Self { folder };
        fs::write(engine.script(), SCRIPT).unwrap();
        fs::set_permissions(engine.script(), fs::Permissions::from_mode(0o700)).unwrap();
        engine.place(sandbox, json!({}));
        engine
    }

    pub(super) fn script(&self) -> PathBuf {
        self.folder.path().join("engine")
    }

    /// Writes the placement `own` with these keys into the config file of the sandbox's user.
    pub(super) fn place(&self, sandbox: &TestSandbox, keys: Value) {
        let work = sandbox.file("in-places");
        fs::create_dir_all(&work).unwrap();
        let script = self.script();
        let own = json!({
            "kind": "command", "cwd": work,
            "submit": [script, "submit", "{name}"], "dial": [script, "dial"], "status": [script, "status", "{handle}"],
            "cancel": [script, "cancel"], "logs": [script, "logs"],
        });
        sandbox.place("own", own, keys);
    }

    /// Makes the engine fail, as the script says.
    pub(super) fn set(&self, fault: &str, text: &str) {
        // Whole or not at all, as the script may run.
        let new = self.folder.path().join("new");
        fs::write(&new, format!("{text}\n")).unwrap();
        fs::rename(new, self.folder.path().join(fault)).unwrap();
    }

    pub(super) fn clear(&self, fault: &str) {
        fs::remove_file(self.folder.path().join(fault)).unwrap();
    }

    /// The handles of all places that were ever started, in the order of their starts.
    pub(super) fn created(&self) -> Vec<String> {
        let entries = fs::read_dir(self.folder.path().join("places")).unwrap();
        let mut handles: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        handles.sort_unstable();
        handles
    }

    /// The handles of the places that have not ended.
    pub(super) fn live(&self) -> Vec<String> {
        let has_ended = |handle: &String| self.disk(handle).join("gone").exists();
        self.created().into_iter().filter(|handle| !has_ended(handle)).collect()
    }

    /// The handle of the only place that has not ended.
    pub(super) fn only(&self) -> String {
        wait_until("the place of a worker", DEADLINE, || self.live().pop())
    }

    /// The folder of a place.
    pub(super) fn disk(&self, handle: &str) -> PathBuf {
        self.folder.path().join("places").join(handle)
    }

    /// How often a command of the placement was run.
    pub(super) fn calls(&self, verb: &str) -> usize {
        let calls = fs::read_to_string(self.folder.path().join("calls")).unwrap_or_default();
        calls.lines().filter(|line| line.split(' ').next() == Some(verb)).count()
    }

    /// Ends a place as its owner does, without the daemon.
    pub(super) fn end(&self, handle: &str) {
        let kept = self.folder.path().join("kept");
        let kept = kept.exists().then(|| fs::read_to_string(&kept).unwrap());
        if kept.is_some() {
            self.clear("kept");
        }
        let mut cancel = Command::new(self.script());
        let cancel = cancel.env("SUBAGENT_PLACE_HANDLE", handle).env("SUBAGENT_PLACE_NAME", "outside");
        assert!(cancel.arg("cancel").status().unwrap().success());
        if let Some(kept) = kept {
            self.set("kept", kept.trim());
        }
    }
}

impl Drop for OwnEngine {
    fn drop(&mut self) {
        let left = match std::thread::panicking() {
            true => Some(self.live()),
            false => wait_while(DEADLINE, || Some(self.live()).filter(|left| !left.is_empty())),
        };
        for handle in left.iter().flatten() {
            let mut cancel = Command::new(self.script());
            let cancel = cancel.env("SUBAGENT_PLACE_HANDLE", handle).env("SUBAGENT_PLACE_NAME", "outside");
            let _ = fs::remove_file(self.folder.path().join("kept"));
            let _ = cancel.arg("cancel").status();
        }
        if !std::thread::panicking() {
            assert!(left.is_none(), "places are left: {left:?}");
        }
    }
}

/// Waits until this is part of the reason why a worker waits.
pub(super) fn wait_for_reason(sandbox: &TestSandbox, worker: &str, part: &str) {
    wait_until("the reason", DEADLINE, || {
        let reason = sandbox.show(worker)["pending"]["reason"].to_string();
        reason.contains(part).then_some(())
    });
}

/// Starts a worker whose place waits, and returns it once its wait is shown.
pub(super) fn waiting(sandbox: &TestSandbox) -> (String, Value) {
    let sent = sandbox.subagent(&["worker", "start", "--launcher", "demo", "--on", "own"]).spawn();
    let shown = wait_until("the wait for the engine", DEADLINE, || {
        let listed = sandbox.run(&["worker", "list"]).data_of("worker.listed");
        let worker = listed["items"][0]["workerId"].as_str()?.to_owned();
        let shown = sandbox.show(&worker);
        shown["pending"].is_object().then_some((worker, shown))
    });
    let _ = sent.kill();
    shown
}
