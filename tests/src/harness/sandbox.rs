//! The sandbox itself: its folders, its environment, and the most frequent commands.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};
use serde_json::Value;
use tempfile::TempDir;

use super::command::{Command, Running};
use super::executables::{Executables, executables};
use super::launchers::{self, TestLauncher};
use super::output::Output;
use super::process::{self, MARKER, Process};
use crate::invariants::Recorder;

/// The variable that places new workers behind a stream.
const PLACED: &str = "SUBAGENT_PLACEMENT_LOOPBACK";

/// The world of one test.
#[derive(Debug)]
pub struct TestSandbox {
    pub(super) root: Option<TempDir>,
    pub(super) id: String,
    /// Time of its creation: its processes are not older.
    pub(super) born: u64,
    pub(super) executables: &'static Executables,
    pub(super) recorder: Recorder,
    pub(super) state_dir: PathBuf,
    /// Folders outside, each with the disks of several places.
    pub(super) disks: Vec<PathBuf>,
    env: BTreeMap<OsString, OsString>,
    launchers: BTreeMap<String, TestLauncher>,
}

impl Default for TestSandbox {
    fn default() -> Self {
        Self::new()
    }
}

impl TestSandbox {
    /// Creates a world without processes or a controller, whose launcher `demo`
    /// is the scripted agent.
    ///
    /// # Panics
    ///
    /// If its folders cannot be created.
    #[must_use]
    pub fn new() -> Self {
        let (executables, born) = (executables(), process::now());
        // Not in TMPDIR: a socket's path has at most 107 bytes.
        let root = tempfile::Builder::new().prefix("sandbox-").rand_bytes(10).tempdir_in("/tmp").unwrap();
        let path = root.path().canonicalize().unwrap();
        for folder in ["home", "run", "tmp", "ws/.subagent"] {
            fs::create_dir_all(path.join(folder)).unwrap();
        }
        fs::set_permissions(path.join("run"), fs::Permissions::from_mode(0o700)).unwrap();
        let id = path.file_name().unwrap().to_str().unwrap().to_owned();
        let mut env = BTreeMap::from([
            ("PATH".into(), std::env::var_os("PATH").unwrap_or_default()),
            ("HOME".into(), path.join("home").into()),
            ("XDG_RUNTIME_DIR".into(), path.join("run").into()),
            ("TMPDIR".into(), path.join("tmp").into()),
            (MARKER.into(), OsString::from(&id)),
        ]);
        // A run of any suite over the stream.
        env.extend(std::env::var_os(PLACED).map(|value| (PLACED.into(), value)));
        let state_dir = path.join("ws/.subagent/state");
        let recorder = Recorder::default();
        let (root, launchers, disks) = (Some(root), BTreeMap::new(), Vec::new());
        let mut sandbox = Self { root, id, born, executables, recorder, state_dir, disks, env, launchers };
        let demo = sandbox.demo_agent(&[]);
        sandbox.launcher("demo", demo);
        sandbox
    }

    /// Creates a world whose new workers are behind a stream.
    ///
    /// # Panics
    ///
    /// As [`TestSandbox::new`].
    #[must_use]
    pub fn placed() -> Self {
        let mut sandbox = Self::new();
        sandbox.set_env(PLACED, "1");
        sandbox
    }

    /// Creates a world with a controller and one worker of the launcher `demo`.
    ///
    /// # Panics
    ///
    /// If they cannot be created.
    #[must_use]
    #[track_caller]
    pub fn with_worker() -> (Self, String) {
        let sandbox = Self::new();
        sandbox.init();
        let worker = sandbox.start("demo");
        (sandbox, worker)
    }

    /// Returns the folder that contains everything of this sandbox.
    ///
    /// # Panics
    ///
    /// Never: the folder exists until the sandbox is finished.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.root.as_ref().unwrap().path()
    }

    /// Returns a file or folder of this sandbox.
    #[must_use]
    pub fn file(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    /// The same as text, for a prompt or a flag.
    ///
    /// # Panics
    ///
    /// Never: the path was created from text.
    #[must_use]
    pub fn file_name(&self, name: &str) -> String {
        self.file(name).to_str().unwrap().to_owned()
    }

    /// Returns the workspace, where commands and agents run.
    #[must_use]
    pub fn workspace(&self) -> PathBuf {
        self.file("ws")
    }

    /// Returns the daemon's state directory.
    #[must_use]
    pub fn state_dir(&self) -> &Path {
        &self.state_dir
    }

    /// Moves the state directory. Call this before anything was started.
    pub fn set_state_dir(&mut self, path: impl Into<PathBuf>) {
        self.state_dir = path.into();
        let path = self.state_dir.clone();
        self.set_env("SUBAGENT_STATE_DIR", path);
    }

    /// Adds a folder with the disks of places, such as pods. Their workers are in `placed` of each.
    pub fn add_disks(&mut self, folder: PathBuf) {
        self.disks.push(folder);
    }

    /// Sets a variable for all later commands.
    pub fn set_env(&mut self, name: impl Into<OsString>, value: impl Into<OsString>) {
        self.env.insert(name.into(), value.into());
    }

    /// Removes a variable from all later commands.
    pub fn remove_env(&mut self, name: &str) {
        self.env.remove(OsStr::new(name));
    }

    /// Returns the scripted agent with these flags. The sandbox stores its sessions and pids.
    pub fn demo_agent(&self, flags: &[&str]) -> TestLauncher {
        let (state, pids) = (self.file_name("sessions"), self.file_name("pids"));
        let args = ["demo-agent", "--state", &state, "--pids", &pids];
        let program = self.executables.path("subagent").to_str().unwrap().to_owned();
        TestLauncher::new(program, args.iter().chain(flags).copied())
    }

    /// Returns another test agent with these flags.
    pub fn test_agent(&self, name: &str, flags: &[&str]) -> TestLauncher {
        let program = self.executables.path(name).to_str().unwrap().to_owned();
        TestLauncher::new(program, flags.iter().copied())
    }

    /// Adds or replaces a launcher.
    ///
    /// # Panics
    ///
    /// If the config file cannot be written.
    pub fn launcher(&mut self, name: &str, launcher: TestLauncher) {
        self.launchers.insert(name.to_owned(), launcher);
        fs::write(self.config_file(), launchers::config(&self.launchers, "demo")).unwrap();
    }

    /// Returns the config file of the workspace.
    #[must_use]
    pub fn config_file(&self) -> PathBuf {
        self.file("ws/.subagent/config.yaml")
    }

    /// Returns the path of an executable under test.
    ///
    /// # Panics
    ///
    /// If the path is not UTF-8.
    #[must_use]
    pub fn executable(&self, name: &str) -> String {
        self.executables.path(name).to_str().unwrap().to_owned()
    }

    /// Returns a command of ours (`subagent`, `subagentd`, ...) or any other
    /// program, in the workspace.
    pub fn command(&self, program: &str) -> Command {
        let own = self.executables.path(program);
        let program = if own.is_file() { own } else { PathBuf::from(program) };
        Command::new(program, self.env.clone(), &self.file("ws"), self.recorder.clone())
    }

    /// Returns `subagent ARGS --json`, to be changed or started.
    pub fn subagent(&self, args: &[&str]) -> Command {
        self.command("subagent").args(args).args(["--json"])
    }

    /// Runs `subagent ARGS --json` to its end.
    #[track_caller]
    pub fn run(&self, args: &[&str]) -> Output {
        self.subagent(args).run()
    }

    /// Creates the workspace's controller. Returns the data of `controller.initialized`.
    #[track_caller]
    pub fn init(&self) -> Value {
        let data = self.run(&["controller", "init"]).data_of("controller.initialized");
        self.recorder.keep_secret(data["owner"]["token"].as_str().unwrap_or_default());
        data
    }

    /// Starts a worker and returns its id.
    ///
    /// # Panics
    ///
    /// If it cannot be started.
    #[must_use]
    #[track_caller]
    pub fn start(&self, launcher: &str) -> String {
        let data = self.run(&["worker", "start", "--launcher", launcher]).data_of("worker.started");
        assert_eq!(data["state"], "idle", "{data}");
        text(&data["workerId"])
    }

    /// Starts a worker of the launcher `demo` at this placement, and returns its id.
    ///
    /// # Panics
    ///
    /// If it cannot be started.
    #[must_use]
    #[track_caller]
    pub fn start_on(&self, place: &str) -> String {
        let data = self.try_start_on(place).data_of("worker.started");
        assert_eq!(data["state"], "idle", "{data}");
        text(&data["workerId"])
    }

    /// Starts one that may fail.
    #[track_caller]
    pub fn try_start_on(&self, place: &str) -> Output {
        self.run(&["worker", "start", "--launcher", "demo", "--on", place])
    }

    /// Returns the data of `worker show`.
    #[must_use]
    #[track_caller]
    pub fn show(&self, worker: &str) -> Value {
        self.run(&["worker", "show", worker]).data_of("worker.shown")
    }

    /// Returns a `send` that waits, with the text on stdin.
    pub fn sending(&self, worker: &str, prompt: &str) -> Command {
        self.subagent(&["send", "--worker-id", worker, "--text-stdin"]).stdin(prompt)
    }

    /// Sends and waits for the end of the turn or a question. Returns the data of `turn.waited`.
    #[must_use]
    #[track_caller]
    pub fn send(&self, worker: &str, prompt: &str) -> Value {
        self.sending(worker, prompt).run().data_of("turn.waited")
    }

    /// Sends a prompt whose turn fails because of the agent. Returns the details of the error.
    #[track_caller]
    pub fn send_fails(&self, worker: &str, prompt: &str, code: &str) -> Value {
        let details = self.sending(worker, prompt).run().error(code)["details"].take();
        assert!(details["turnId"].is_string() && details["eventId"].is_string(), "{details}");
        details
    }

    /// Sends without waiting. Returns the data of `turn.accepted`.
    #[must_use]
    #[track_caller]
    pub fn send_no_wait(&self, worker: &str, prompt: &str) -> Value {
        self.sending(worker, prompt).args(["--no-wait"]).run().data_of("turn.accepted")
    }

    /// Waits for an event after a cursor and returns it.
    #[must_use]
    #[track_caller]
    pub fn wait_after(&self, worker: &str, cursor: &Value, until: &str) -> Value {
        let cursor = text(cursor);
        let args = ["wait", "--worker-id", worker, "--from-event-id", &cursor, "--until", until];
        self.run(&args).data_of("event.matched")
    }

    /// Waits for the end of a turn from the data of its acceptance. Returns the event.
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

    /// Returns all events of a worker so far.
    #[must_use]
    #[track_caller]
    pub fn events(&self, worker: &str) -> Vec<Value> {
        let output = self.command("subagent").args(["watch", "--worker-id", worker]).run();
        let _ = output.text();
        output.lines()
    }

    /// Follows the events of a worker until the test stops it.
    #[track_caller]
    pub fn follow(&self, worker: &str) -> Running {
        let args = ["watch", "--worker-id", worker, "--follow", "--timeout-seconds", "0"];
        self.command("subagent").args(args).deadline(Duration::from_secs(120)).spawn()
    }

    /// Writes the definition of an agent into the workspace. `keys` are further lines of its head.
    ///
    /// # Panics
    ///
    /// If it cannot be written.
    pub fn define(&self, name: &str, keys: &str) {
        let folder = self.workspace().join(".agents/agents");
        fs::create_dir_all(&folder).unwrap();
        let text = format!("---\ndescription: Finds things\n{keys}---\nLook.\n");
        fs::write(folder.join(format!("{name}.md")), text).unwrap();
    }

    /// Returns the number that a query of the database gives.
    ///
    /// # Panics
    ///
    /// If the query fails.
    #[must_use]
    pub fn number(&self, sql: &str) -> i64 {
        self.database().query_row(sql, [], |row| row.get(0)).unwrap()
    }

    /// Returns the number of stored records, how many different numbers they have, and the highest.
    ///
    /// # Panics
    ///
    /// If the database cannot be read.
    #[must_use]
    pub fn records(&self) -> (i64, i64, i64) {
        let sql = "SELECT count(number), count(DISTINCT number), coalesce(max(number), 0) FROM events";
        let row = self.database().query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)));
        row.unwrap()
    }

    fn database(&self) -> Connection {
        let path = self.state_dir().join("state.db");
        Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap()
    }

    /// Returns the processes of this sandbox.
    #[must_use]
    pub fn processes(&self) -> Vec<Process> {
        process::of_sandbox(&self.id, self.born, self.path(), self.executables.folder())
    }

    /// Returns the recorder of acknowledged facts.
    #[must_use]
    pub fn recorder(&self) -> &Recorder {
        &self.recorder
    }
}

/// Returns the string in a JSON value.
#[track_caller]
fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text")).to_owned()
}
