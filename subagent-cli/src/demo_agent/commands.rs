//! Script directives for files, processes and signals.

use std::fs::OpenOptions;
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;

use super::inbox::InboxEvent;
use super::shapes::SpawnShape;
use super::turn::{DemoTurn, EarlyEnd, WakeReason};

/// Polling interval for a file. A poll costs microseconds and needs no watch descriptor.
const LOOK: Duration = Duration::from_millis(5);
/// Timeout of `!wait-file` and `!shell`.
const PATIENCE: Duration = Duration::from_secs(600);
/// Maximum time for a process of `!spawn` to write its pid.
const SPAWN_PATIENCE: Duration = Duration::from_secs(10);

/// Appends this process's pid as a line.
pub(super) fn touch(path: &Path) -> Option<String> {
    let line = format!("{}\n", std::process::id());
    let written = OpenOptions::new()
        .append(true)
        .create(true)
        .open(path)
        .and_then(|mut file| file.write_all(line.as_bytes()));
    written.err().map(|error| format!("!touch: {}: {error}", path.display()))
}

/// Kills this process with SIGKILL; returns only on failure.
pub(super) fn kill_self() -> Option<String> {
    kill(Pid::this(), Signal::SIGKILL).err().map(|error| format!("!kill-self: {error}"))
}

/// Writes one line to stderr.
pub(super) fn stderr(text: &str) -> Option<String> {
    writeln!(io::stderr(), "{text}").err().map(|error| format!("!stderr: {error}"))
}

impl DemoTurn<'_> {
    pub(super) fn wait_file(&mut self, path: &Path) -> Result<Option<String>, EarlyEnd> {
        let there = self.wait_until(PATIENCE, || path.exists())?;
        Ok((!there)
            .then(|| format!("!wait-file: {} is not there after {} s", path.display(), PATIENCE.as_secs())))
    }

    /// Starts the shapes in order and waits for each pid in the file.
    pub(super) fn spawn(&mut self, shapes: &[SpawnShape]) -> Result<Option<String>, EarlyEnd> {
        let pids =
            self.agent.options.pids.clone().or_else(|| {
                std::env::var_os("DEMO_AGENT_PIDS").filter(|path| !path.is_empty()).map(Into::into)
            });
        let Some(pids) = pids else {
            return Ok(Some("!spawn needs --pids FILE or the variable DEMO_AGENT_PIDS".to_owned()));
        };
        for shape in shapes {
            let before = match OpenOptions::new().append(true).create(true).open(&pids) {
                Ok(_) => count_lines(&pids),
                Err(error) => return Ok(Some(format!("!spawn: {}: {error}", pids.display()))),
            };
            match self.start_shape(*shape, &pids) {
                Ok(child) => self.agent.spawned.push(child),
                Err(error) => return Ok(Some(format!("!spawn {}: {error}", shape.name()))),
            }
            if !self.wait_until(SPAWN_PATIENCE, || count_lines(&pids) > before)? {
                let seconds = SPAWN_PATIENCE.as_secs();
                return Ok(Some(format!("!spawn {}: no pid after {seconds} s", shape.name())));
            }
            self.say(&format!("spawned: {}", shape.name()))?;
        }
        Ok(None)
    }

    fn start_shape(&self, shape: SpawnShape, pids: &Path) -> io::Result<Child> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(&self.agent.self_args).args(["--spawned", shape.name(), "--pids"]).arg(pids);
        match shape {
            SpawnShape::HoldPipes => {}
            SpawnShape::WipeEnv => {
                command.env_clear().stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            }
            SpawnShape::Daemon | SpawnShape::IgnoreTerm | SpawnShape::Forker => {
                command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            }
        }
        command.spawn()
    }

    /// Runs `sh -c` in a new process group and reports its exit code and output.
    pub(super) fn shell(&mut self, command: &str) -> Result<Option<String>, EarlyEnd> {
        let (mut child, reader) = match start_shell(command) {
            Ok(started) => started,
            Err(error) => return Ok(Some(format!("!shell: {error}"))),
        };
        let number = child.id();
        let group = i32::try_from(child.id()).map(Pid::from_raw);
        let sender = self.agent.inbox.sender();
        let waiter = thread::spawn(move || {
            let report = shell_report(&mut child, reader);
            // The receiver is gone only if the process is ending.
            let _ = sender.send(InboxEvent::ShellEnded { number, report });
        });
        let end = Instant::now() + PATIENCE;
        let result = loop {
            let left = end.saturating_duration_since(Instant::now());
            match self.wait(left) {
                Ok(WakeReason::Shell { number: ended, report }) if ended == number => break Ok(Some(report)),
                Ok(_) if left.is_zero() => break Ok(None),
                Ok(_) => {}
                Err(stop) => break Err(stop),
            }
        };
        match result {
            Ok(Some(report)) => {
                // The thread sent its report and ends at once; a panic would have sent none.
                let _ = waiter.join();
                self.say(&report)?;
                Ok(None)
            }
            unfinished => {
                // Fails only if the group is gone. The thread reaps the shell.
                let _ = group.map(|group| killpg(group, Signal::SIGKILL));
                unfinished.map(|_| Some(format!("!shell: still running after {} s", PATIENCE.as_secs())))
            }
        }
    }

    /// Polls every 5 ms until the condition holds; false after the timeout.
    fn wait_until(&mut self, time: Duration, is_so: impl Fn() -> bool) -> Result<bool, EarlyEnd> {
        let end = Instant::now() + time;
        while !is_so() {
            if Instant::now() >= end {
                return Ok(false);
            }
            self.wait(LOOK)?;
        }
        Ok(true)
    }
}

fn count_lines(path: &Path) -> usize {
    std::fs::read(path).map_or(0, |bytes| bytes.split_inclusive(|byte| *byte == b'\n').count())
}

fn start_shell(command: &str) -> io::Result<(Child, io::PipeReader)> {
    let (reader, writer) = io::pipe()?;
    let child = Command::new("sh")
        .args(["-c", command])
        .stdin(Stdio::null())
        .stdout(writer.try_clone()?)
        .stderr(writer)
        .process_group(0)
        .spawn()?;
    Ok((child, reader))
}

fn shell_report(child: &mut Child, mut reader: io::PipeReader) -> String {
    let mut output = Vec::new();
    let read = reader.read_to_end(&mut output);
    let text = String::from_utf8_lossy(&output);
    match (child.wait(), read) {
        (Ok(status), Ok(_)) => match status.code() {
            Some(code) => format!("exit {code}\n{text}"),
            None => format!("{status}\n{text}"),
        },
        (Err(error), _) | (_, Err(error)) => format!("!shell: {error}\n{text}"),
    }
}
