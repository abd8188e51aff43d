//! The world of one row: a sandbox whose launcher `fast` is the fast agent, and timed commands.

use std::fs;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use subagent_tests::harness::process::Process;
use subagent_tests::harness::{self, TestSandbox};

/// Time limit of a command in seconds, below that of the harness.
const PATIENCE: &str = "900";
/// Time limit of commands that are not timed.
const DEADLINE: Duration = Duration::from_secs(1000);

pub(crate) struct BenchWorld {
    pub(crate) sandbox: TestSandbox,
}

impl BenchWorld {
    /// A world without processes and without a controller.
    pub(crate) fn empty() -> Self {
        let mut sandbox = TestSandbox::new();
        crate::interrupt::remember(sandbox.path().to_owned());
        let agent = sandbox.test_agent("fast-agent", &[]);
        sandbox.launcher("fast", agent);
        Self { sandbox }
    }

    /// A world with a controller, and therefore a daemon.
    pub(crate) fn new() -> Self {
        let world = Self::empty();
        world.sandbox.init();
        world
    }

    /// The same with this number of idle workers.
    pub(crate) fn with_workers(count: usize) -> (Self, Vec<String>) {
        let world = Self::new();
        let workers = (0..count).map(|_| world.start()).collect();
        (world, workers)
    }

    pub(crate) fn start(&self) -> String {
        self.sandbox.start("fast")
    }

    /// Starts a worker with these flags and stops it. Returns the duration of the start in ms.
    pub(crate) fn start_and_stop(&self, more: &[&str]) -> f64 {
        let args = [&["worker", "start", "--launcher", "fast"], more].concat();
        let (took, data) = self.timed(&args);
        self.timed(&["worker", "stop", data["workerId"].as_str().unwrap()]);
        took
    }

    /// Runs `subagent ARGS --json`. Returns the duration of the whole process in ms, and its data.
    pub(crate) fn timed(&self, args: &[&str]) -> (f64, Value) {
        timed(&mut self.sandbox.subagent(args).process())
    }

    /// Sends a prompt. Returns the time until the end of the turn was known, in ms.
    pub(crate) fn send(&self, worker: &str, prompt: &str) -> f64 {
        let (took, data) = self.timed(&sending(worker, prompt));
        assert_eq!(data["matchedEvent"]["type"], "turn.completed", "{data}");
        took
    }

    /// The same for several workers at once. Returns the time until all have ended, in ms.
    pub(crate) fn send_to_all(&self, workers: &[String], prompt: &str) -> f64 {
        let begun = Instant::now();
        let running: Vec<_> = workers
            .iter()
            .map(|worker| self.sandbox.subagent(&sending(worker, prompt)).deadline(DEADLINE).process())
            .map(|mut command| command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap())
            .collect();
        let threads: Vec<_> = running
            .into_iter()
            .map(|child| thread::spawn(move || child.wait_with_output().unwrap()))
            .collect();
        let outputs: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        let took = millis(begun.elapsed());
        for output in outputs {
            let text = String::from_utf8_lossy(&output.stdout);
            let document: Value = serde_json::from_str(&text).unwrap_or_default();
            assert_eq!(document["data"]["matchedEvent"]["type"], "turn.completed", "{text:.500}");
        }
        took
    }

    /// Returns our own processes of a worker: runtime and guard.
    pub(crate) fn own_processes(&self, worker: &Value) -> [Process; 2] {
        let pid = worker["runtimePid"].as_i64().and_then(|pid| i32::try_from(pid).ok());
        let runtime = pid.and_then(Process::find).unwrap_or_else(|| panic!("no live runtime: {worker}"));
        let below =
            fs::read_to_string(format!("/proc/{0}/task/{0}/children", runtime.pid)).unwrap_or_default();
        let mut below = below.split_whitespace().filter_map(|pid| Process::find(pid.parse().ok()?));
        let guard = below.find(|child| child.name == "subagent-guard").expect("a guard below the runtime");
        [runtime, guard]
    }

    /// Returns the number of stored chunks.
    pub(crate) fn chunks(&self) -> f64 {
        let path = self.sandbox.state_dir().join("state.db");
        let database = rusqlite::Connection::open(path).unwrap();
        let sql = "SELECT count(*) FROM events WHERE type = ''";
        database.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap() as f64
    }

    /// Stops everything, and checks all invariants and that no process is left.
    pub(crate) fn finish(self) {
        let _ = self.sandbox.finish();
    }
}

fn sending<'a>(worker: &'a str, prompt: &'a str) -> [&'a str; 7] {
    ["send", "--worker-id", worker, "--text", prompt, "--wait-timeout-seconds", PATIENCE]
}

/// Runs a command of the program or of the reference with `--json`. Returns the duration of the
/// whole process in ms, and its data.
pub(crate) fn timed(command: &mut Command) -> (f64, Value) {
    command.stdin(Stdio::null());
    let begun = Instant::now();
    let output = command.output().unwrap();
    let took = millis(begun.elapsed());
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{command:?}\n{text:.3000}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let mut document: Value = serde_json::from_str(&text).unwrap();
    (took, document["data"].take())
}

/// Returns the duration of a process without output, in ms.
pub(crate) fn timed_program(command: &mut Command) -> f64 {
    command.stdin(Stdio::null());
    let begun = Instant::now();
    let output = command.output().unwrap();
    let took = millis(begun.elapsed());
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    took
}

pub(crate) fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

/// Does nothing for this time: the measurement is about time, and nothing is waited for.
pub(crate) fn idle_for(time: Duration) {
    let (_keep, nothing) = mpsc::channel::<()>();
    let _ = nothing.recv_timeout(time);
}

/// Writes changes to disk before memory is measured: unwritten pages of an
/// executable count as changed.
pub(crate) fn sync() {
    nix::unistd::sync();
}

/// Returns the path of an executable.
pub(crate) fn executable(name: &str) -> std::path::PathBuf {
    harness::executables().path(name)
}
