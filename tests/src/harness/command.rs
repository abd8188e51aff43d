//! Runs a command in a sandbox with a deadline, and collects its output while it runs.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::output::Output;
use super::wait::{poll, wait_until};
use crate::invariants::Recorder;

/// Time limit of a command, generous because several tests share two cores.
const DEADLINE: Duration = Duration::from_secs(60);
/// Slower commands are reported even if the test passes: they may have waited for a deadline.
const SLOW: Duration = Duration::from_secs(10);
/// How long pipes may stay open after the command's end: longer would block a caller's `$(...)`.
const PIPES_DEADLINE: Duration = Duration::from_secs(5);

/// A command to run, with exactly the sandbox's environment.
#[derive(Debug, Clone)]
#[must_use]
pub struct Command {
    program: PathBuf,
    args: Vec<OsString>,
    env: BTreeMap<OsString, OsString>,
    cwd: PathBuf,
    stdin: Option<Vec<u8>>,
    deadline: Duration,
    recorder: Recorder,
}

impl Command {
    pub(super) fn new(
        program: impl Into<PathBuf>,
        env: BTreeMap<OsString, OsString>,
        cwd: &Path,
        recorder: Recorder,
    ) -> Self {
        let (program, cwd) = (program.into(), cwd.to_owned());
        Self { program, args: Vec::new(), env, cwd, stdin: None, deadline: DEADLINE, recorder }
    }

    /// Appends arguments to the command.
    pub fn args<S: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.args.extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    /// Sets an environment variable.
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.insert(name.into(), value.into());
        self
    }

    /// Removes an environment variable.
    pub fn without_env(mut self, name: &str) -> Self {
        self.env.remove(OsStr::new(name));
        self
    }

    /// Uses this recorder for output about another state directory than the sandbox's.
    pub fn recorded_by(mut self, recorder: &Recorder) -> Self {
        self.recorder = recorder.clone();
        self
    }

    /// Runs it in another folder than the workspace.
    pub fn cwd(mut self, cwd: impl Into<PathBuf>) -> Self {
        self.cwd = cwd.into();
        self
    }

    /// Sets its standard input, which is empty by default.
    pub fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.stdin = Some(bytes.into());
        self
    }

    /// Replaces the time limit of 60 s.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Sets a variable unless it is set.
    pub(super) fn env_default(mut self, name: &str, value: &str) -> Self {
        self.env.entry(name.into()).or_insert_with(|| value.into());
        self
    }

    /// Returns the process to start, without its standard streams, for other ways to start it.
    #[must_use]
    pub fn process(&self) -> std::process::Command {
        let mut command = std::process::Command::new(&self.program);
        command.args(&self.args).env_clear().envs(&self.env).current_dir(&self.cwd);
        command
    }

    /// Runs it to its end.
    ///
    /// # Panics
    ///
    /// If it does not end in time; it is then killed.
    #[track_caller]
    pub fn run(self) -> Output {
        self.spawn().output()
    }

    /// Starts the command with its pipes.
    ///
    /// # Panics
    ///
    /// If it cannot be started.
    #[track_caller]
    pub fn spawn(self) -> Running {
        let begun = Instant::now();
        let args: Vec<String> = self.args.iter().map(|arg| arg.to_string_lossy().into_owned()).collect();
        self.recorder.attempt(&args);
        let mut process = self.process();
        process
            .stdin(if self.stdin.is_some() { Stdio::piped() } else { Stdio::null() })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        // The executable may have been copied just now: a forked process of another test holds it
        // open until its own `exec`.
        let started = wait_until("the executable to be closed", Duration::from_secs(10), || {
            Some(process.spawn()).filter(|started| {
                !started.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::ExecutableFileBusy)
            })
        });
        let mut child =
            started.unwrap_or_else(|error| panic!("cannot start {}: {error}", self.program.display()));
        if let (Some(bytes), Some(mut stdin)) = (self.stdin, child.stdin.take()) {
            // The command may end without reading everything.
            thread::spawn(move || drop(stdin.write_all(&bytes)));
        }
        let name = self.program.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Running {
            command: format!("{name} {}", args.join(" ")),
            stdout: Said::collect(child.stdout.take().unwrap()),
            stderr: Said::collect(child.stderr.take().unwrap()),
            child: Some(child),
            args,
            begun,
            deadline: self.deadline,
            recorder: self.recorder,
        }
    }
}

/// A running command, which is killed on drop.
#[derive(Debug)]
pub struct Running {
    command: String,
    args: Vec<String>,
    child: Option<Child>,
    stdout: Said,
    stderr: Said,
    begun: Instant,
    deadline: Duration,
    recorder: Recorder,
}

impl Running {
    /// Returns the pid of the process.
    ///
    /// # Panics
    ///
    /// Never: the child exists until its output was taken.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.child.as_ref().unwrap().id().try_into().unwrap()
    }

    /// Sends it a signal.
    ///
    /// # Panics
    ///
    /// If the signal cannot be sent.
    pub fn signal(&self, signal: Signal) {
        // Its pid stays valid until it is reaped, which only `output` and `drop` do.
        kill(Pid::from_raw(self.pid()), signal).unwrap();
    }

    /// Waits for a whole line on stdout that `accept` accepts, and returns its result.
    ///
    /// # Panics
    ///
    /// If no such line arrives before the command's deadline or end.
    #[track_caller]
    pub fn wait_line<T>(&self, what: &str, accept: impl FnMut(&str) -> Option<T>) -> T {
        let left = (self.begun + self.deadline).saturating_duration_since(Instant::now());
        match self.stdout.wait_line(left, accept) {
            Some(found) => found,
            None => panic!(
                "`{}` printed no line with {what}\n--- stdout\n{}\n--- stderr\n{}",
                self.command,
                self.stdout.text(),
                self.stderr.text()
            ),
        }
    }

    /// Returns its output so far.
    #[must_use]
    pub fn stdout(&self) -> String {
        self.stdout.text()
    }

    /// Returns its error output so far.
    #[must_use]
    pub fn stderr(&self) -> String {
        self.stderr.text()
    }

    /// Whether it is still running.
    ///
    /// # Panics
    ///
    /// If its status is not available.
    pub fn runs(&mut self) -> bool {
        self.child.as_mut().unwrap().try_wait().unwrap().is_none()
    }

    /// Waits for its end.
    ///
    /// # Panics
    ///
    /// If it does not end in time (it is then killed), or another process keeps its
    /// stdout or stderr open.
    #[track_caller]
    pub fn output(mut self) -> Output {
        let left = (self.begun + self.deadline).saturating_duration_since(Instant::now());
        let mut child = self.child.take().unwrap();
        let status = poll(left, || child.try_wait().unwrap());
        let elapsed = self.begun.elapsed();
        if status.is_none() {
            let _ = child.kill();
            let _ = child.wait();
        }
        let closed = self.stdout.wait_end(PIPES_DEADLINE) && self.stderr.wait_end(PIPES_DEADLINE);
        let (stdout, stderr) = (self.stdout.text(), self.stderr.text());
        let Some(status) = status else {
            panic!(
                "`{}` did not end within {:?}\n--- stdout\n{stdout}\n--- stderr\n{stderr}",
                self.command, self.deadline
            );
        };
        let output = Output { command: self.command.clone(), status, stdout, stderr, elapsed };
        assert!(closed, "it has ended, but another process keeps its stdout or stderr open\n{output}");
        if elapsed > SLOW {
            eprintln!("slow: {output}");
        }
        self.recorder.learn(&self.args, &output.stdout);
        output
    }

    /// Kills it, as if the manager's shell had died, and returns its output.
    pub fn kill(mut self) -> String {
        self.end();
        self.stdout.wait_end(PIPES_DEADLINE);
        let stdout = self.stdout.text();
        self.recorder.learn(&self.args, &stdout);
        stdout
    }

    fn end(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}

/// The bytes read from a pipe so far, by a thread.
#[derive(Debug, Clone)]
pub(super) struct Said(Arc<(Mutex<CommandOutput>, Condvar)>);

#[derive(Debug, Default)]
pub(super) struct CommandOutput {
    bytes: Vec<u8>,
    ended: bool,
}

impl Said {
    pub(super) fn collect(mut pipe: impl Read + Send + 'static) -> Self {
        let said = Self(Arc::default());
        let heard = said.clone();
        thread::spawn(move || {
            let mut buffer = [0; 16 * 1024];
            loop {
                let read = pipe.read(&mut buffer).unwrap_or(0);
                let (lock, changed) = &*heard.0;
                let mut so_far = lock.lock().unwrap();
                so_far.bytes.extend_from_slice(&buffer[..read]);
                so_far.ended = read == 0;
                changed.notify_all();
                if read == 0 {
                    return;
                }
            }
        });
        said
    }

    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.0.lock().unwrap().bytes).into_owned()
    }

    fn wait_end(&self, limit: Duration) -> bool {
        let (lock, changed) = &*self.0;
        let heard = lock.lock().unwrap();
        changed.wait_timeout_while(heard, limit, |heard| !heard.ended).unwrap().0.ended
    }

    /// Waits until this text has arrived. Returns false if it did not in time.
    pub(super) fn wait_text(&self, limit: Duration, text: &str) -> bool {
        let (lock, changed) = &*self.0;
        let heard = lock.lock().unwrap();
        let missing = |heard: &mut CommandOutput| !String::from_utf8_lossy(&heard.bytes).contains(text);
        !changed.wait_timeout_while(heard, limit, missing).unwrap().1.timed_out()
    }

    fn wait_line<T>(&self, limit: Duration, mut accept: impl FnMut(&str) -> Option<T>) -> Option<T> {
        let end = Instant::now() + limit;
        let (lock, changed) = &*self.0;
        let mut heard = lock.lock().unwrap();
        let mut looked_at = 0;
        loop {
            while let Some(length) = heard.bytes[looked_at..].iter().position(|byte| *byte == b'\n') {
                let line = String::from_utf8_lossy(&heard.bytes[looked_at..looked_at + length]).into_owned();
                looked_at += length + 1;
                if let Some(found) = accept(&line) {
                    return Some(found);
                }
            }
            let left = end.saturating_duration_since(Instant::now());
            if heard.ended || left.is_zero() {
                return None;
            }
            heard = changed.wait_timeout(heard, left).unwrap().0;
        }
    }
}
