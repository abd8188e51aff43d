//! The sandbox itself: its folders, its environment, and the commands that nearly every test uses.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use super::command::{Command, Running};
use super::executables::{Executables, executables};
use super::launchers::{self, Launcher};
use super::output::Output;
use super::process::{self, MARKER, Process};
use crate::invariants::Recorder;

/// One test's world.
#[derive(Debug)]
pub struct Sandbox {
    pub(super) root: Option<TempDir>,
    pub(super) id: String,
    /// When it was made: its processes are not older.
    pub(super) born: u64,
    pub(super) executables: &'static Executables,
    pub(super) recorder: Recorder,
    pub(super) state_dir: PathBuf,
    env: BTreeMap<OsString, OsString>,
    launchers: BTreeMap<String, Launcher>,
}

impl Default for Sandbox {
    fn default() -> Self {
        Self::new()
    }
}

impl Sandbox {
    /// A new world: nothing runs, there is no controller, the launcher `demo` is the scripted agent.
    ///
    /// # Panics
    /// When its folders cannot be made.
    #[must_use]
    pub fn new() -> Self {
        let (executables, born) = (executables(), process::now());
        // Not in TMPDIR: the path of a socket has 107 bytes at most.
        let root = tempfile::Builder::new().prefix("sandbox-").rand_bytes(10).tempdir_in("/tmp").unwrap();
        let path = root.path().canonicalize().unwrap();
        for folder in ["home", "run", "tmp", "ws/.subagent"] {
            fs::create_dir_all(path.join(folder)).unwrap();
        }
        fs::set_permissions(path.join("run"), fs::Permissions::from_mode(0o700)).unwrap();
        let id = path.file_name().unwrap().to_str().unwrap().to_owned();
        let env = BTreeMap::from([
            ("PATH".into(), std::env::var_os("PATH").unwrap_or_default()),
            ("HOME".into(), path.join("home").into()),
            ("XDG_RUNTIME_DIR".into(), path.join("run").into()),
            ("TMPDIR".into(), path.join("tmp").into()),
            (MARKER.into(), OsString::from(&id)),
        ]);
        let state_dir = path.join("ws/.subagent/state");
        let recorder = Recorder::default();
        let (root, launchers) = (Some(root), BTreeMap::new());
        let mut sandbox = Self { root, id, born, executables, recorder, state_dir, env, launchers };
        let demo = sandbox.demo_agent(&[]);
        sandbox.launcher("demo", demo);
        sandbox
    }

    /// A world with a controller and one worker of the launcher `demo`.
    ///
    /// # Panics
    /// When they cannot be made.
    #[must_use]
    #[track_caller]
    pub fn with_worker() -> (Self, String) {
        let sandbox = Self::new();
        sandbox.init();
        let worker = sandbox.start("demo");
        (sandbox, worker)
    }

    /// The folder that holds everything of this sandbox.
    ///
    /// # Panics
    /// Never: the folder is there until the sandbox is finished.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.root.as_ref().unwrap().path()
    }

    /// A file or folder of this sandbox.
    #[must_use]
    pub fn file(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    /// The same, as text for a prompt or a flag.
    ///
    /// # Panics
    /// Never: the path was made of text.
    #[must_use]
    pub fn file_name(&self, name: &str) -> String {
        self.file(name).to_str().unwrap().to_owned()
    }

    /// The workspace: where commands run and agents work.
    #[must_use]
    pub fn workspace(&self) -> PathBuf {
        self.file("ws")
    }

    /// Where the daemon keeps everything.
    #[must_use]
    pub fn state_dir(&self) -> &Path {
        &self.state_dir
    }

    /// Moves the state dir, before anything was started.
    pub fn set_state_dir(&mut self, path: impl Into<PathBuf>) {
        self.state_dir = path.into();
        let path = self.state_dir.clone();
        self.set_env("SUBAGENT_STATE_DIR", path);
    }

    /// Sets a variable for all later commands.
    pub fn set_env(&mut self, name: impl Into<OsString>, value: impl Into<OsString>) {
        self.env.insert(name.into(), value.into());
    }

    /// Takes a variable from all later commands.
    pub fn remove_env(&mut self, name: &str) {
        self.env.remove(OsStr::new(name));
    }

    /// The scripted agent with these flags; its sessions and the pids that it leaves are kept in the sandbox.
    pub fn demo_agent(&self, flags: &[&str]) -> Launcher {
        let (state, pids) = (self.file_name("sessions"), self.file_name("pids"));
        let args = ["demo-agent", "--state", &state, "--pids", &pids];
        let program = self.executables.path("subagent").to_str().unwrap().to_owned();
        Launcher::new(program, args.iter().chain(flags).copied())
    }

    /// Another agent among the test executables, with these flags.
    pub fn test_agent(&self, name: &str, flags: &[&str]) -> Launcher {
        let program = self.executables.path(name).to_str().unwrap().to_owned();
        Launcher::new(program, flags.iter().copied())
    }

    /// Adds a launcher, or replaces it.
    ///
    /// # Panics
    /// When the config file cannot be written.
    pub fn launcher(&mut self, name: &str, launcher: Launcher) {
        self.launchers.insert(name.to_owned(), launcher);
        fs::write(self.config_file(), launchers::config(&self.launchers, "demo")).unwrap();
    }

    /// The config file of the workspace.
    #[must_use]
    pub fn config_file(&self) -> PathBuf {
        self.file("ws/.subagent/config.yaml")
    }

    /// The path of an executable under test.
    ///
    /// # Panics
    /// When the path is no text.
    #[must_use]
    pub fn executable(&self, name: &str) -> String {
        self.executables.path(name).to_str().unwrap().to_owned()
    }

    /// A command of ours (`subagent`, `subagentd`, ...) or any other program, in the workspace.
    pub fn command(&self, program: &str) -> Command {
        let own = self.executables.path(program);
        let program = if own.is_file() { own } else { PathBuf::from(program) };
        Command::new(program, self.env.clone(), &self.file("ws"), self.recorder.clone())
    }

    /// `subagent ARGS --json`, to be changed or started.
    pub fn subagent(&self, args: &[&str]) -> Command {
        self.command("subagent").args(args).args(["--json"])
    }

    /// Runs `subagent ARGS --json`.
    #[track_caller]
    pub fn run(&self, args: &[&str]) -> Output {
        self.subagent(args).run()
    }

    /// Makes the workspace's controller; gives the data of `controller.initialized`.
    #[track_caller]
    pub fn init(&self) -> Value {
        let data = self.run(&["controller", "init"]).data_of("controller.initialized");
        self.recorder.keep_secret(data["owner"]["token"].as_str().unwrap_or_default());
        data
    }

    /// Starts a worker and gives its id.
    ///
    /// # Panics
    /// When it cannot be started.
    #[must_use]
    #[track_caller]
    pub fn start(&self, launcher: &str) -> String {
        let data = self.run(&["worker", "start", "--launcher", launcher]).data_of("worker.started");
        assert_eq!(data["state"], "idle", "{data}");
        text(&data["workerId"])
    }

    /// Data of `worker show`.
    #[must_use]
    #[track_caller]
    pub fn show(&self, worker: &str) -> Value {
        self.run(&["worker", "show", worker]).data_of("worker.shown")
    }

    /// `send` that waits, with the text on stdin.
    pub fn sending(&self, worker: &str, prompt: &str) -> Command {
        self.subagent(&["send", "--worker-id", worker, "--text-stdin"]).stdin(prompt)
    }

    /// Sends and waits for the end of the turn or a question; gives the data of `turn.waited`.
    #[must_use]
    #[track_caller]
    pub fn send(&self, worker: &str, prompt: &str) -> Value {
        self.sending(worker, prompt).run().data_of("turn.waited")
    }

    /// Sends a prompt whose turn fails for the agent's fault; gives the details of the error.
    #[track_caller]
    pub fn send_fails(&self, worker: &str, prompt: &str, code: &str) -> Value {
        let details = self.sending(worker, prompt).run().error(code)["details"].take();
        assert!(details["turnId"].is_string() && details["eventId"].is_string(), "{details}");
        details
    }

    /// Sends without waiting; gives the data of `turn.accepted`.
    #[must_use]
    #[track_caller]
    pub fn send_no_wait(&self, worker: &str, prompt: &str) -> Value {
        self.sending(worker, prompt).args(["--no-wait"]).run().data_of("turn.accepted")
    }

    /// Waits for an event after a cursor; gives the event.
    #[must_use]
    #[track_caller]
    pub fn wait_after(&self, worker: &str, cursor: &Value, until: &str) -> Value {
        let cursor = text(cursor);
        let args = ["wait", "--worker-id", worker, "--from-event-id", &cursor, "--until", until];
        self.run(&args).data_of("event.matched")
    }

    /// Waits for the end of a turn, given the data of its acceptance; gives the event.
    #[must_use]
    #[track_caller]
    pub fn turn_end(&self, accepted: &Value) -> Value {
        let worker = text(&accepted["workerId"]);
        self.wait_after(&worker, &accepted["acceptedEventId"], "turn.completed,turn.failed,turn.canceled")
    }

    /// Decides a permission request with `--decision`.
    #[track_caller]
    pub fn approve(&self, worker: &str, request: &Value, decision: &str) -> Output {
        let request = text(request);
        self.run(&["approve", "--worker-id", worker, "--request", &request, "--decision", decision])
    }

    /// All events of a worker so far.
    #[must_use]
    #[track_caller]
    pub fn events(&self, worker: &str) -> Vec<Value> {
        let output = self.command("subagent").args(["watch", "--worker-id", worker]).run();
        let _ = output.text();
        output.lines()
    }

    /// Follows the events of a worker for as long as the test wants.
    #[track_caller]
    pub fn follow(&self, worker: &str) -> Running {
        let args = ["watch", "--worker-id", worker, "--follow", "--timeout-seconds", "0"];
        self.command("subagent").args(args).deadline(Duration::from_secs(120)).spawn()
    }

    /// The processes of this sandbox.
    #[must_use]
    pub fn processes(&self) -> Vec<Process> {
        process::of_sandbox(&self.id, self.born, self.path(), self.executables.folder())
    }

    /// What was acknowledged so far.
    #[must_use]
    pub fn recorder(&self) -> &Recorder {
        &self.recorder
    }
}

/// A string of a JSON value.
#[track_caller]
fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text")).to_owned()
}
