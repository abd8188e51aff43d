//! Starts runtimes and watches for their end.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

use command_fds::{CommandFdExt as _, FdMapping};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use subagent_config::environment::passes_on;
use subagent_config::proc;
use subagent_protocol::process::ProcessId;
use subagent_protocol::start::{GUARD_LOCK_FD, LOCK_FD, RuntimeStart, STORAGE_FULL_EXIT};
use tokio::io::unix::AsyncFd;

/// The variable of the daemon that a runtime gets, beside those that every process gets. The
/// runtime does not pass it on.
const PASSED_ON: &str = "SUBAGENT_LOG";

/// Maximum length of a failed runtime's standard error in an error message, in bytes.
const MAX_SAID: u64 = 2048;

/// A runtime that was just started.
pub(crate) struct Started {
    pub(crate) process: ProcessId,
    child: Child,
    /// The start parameters, written to its standard input.
    introduction: Vec<u8>,
}

/// Starts a runtime. Both locks are passed on to it; the daemon's copies are closed.
///
/// # Errors
/// Those of the system.
pub(crate) fn start(
    program: &Path,
    start: &RuntimeStart,
    lock: File,
    guard_lock: File,
) -> io::Result<Started> {
    let mut command = Command::new(program);
    command
        .arg("run")
        .current_dir("/")
        .env_clear()
        .envs(std::env::vars_os().filter(|(name, _)| passes_on(name) || name == PASSED_ON))
        .envs(subagent_failpoint::armed_with())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .fd_mappings(vec![
            FdMapping { parent_fd: OwnedFd::from(lock), child_fd: LOCK_FD },
            FdMapping { parent_fd: OwnedFd::from(guard_lock), child_fd: GUARD_LOCK_FD },
        ])
        .map_err(io::Error::other)?;
    let introduction = serde_json::to_vec(start).map_err(io::Error::other)?;
    subagent_failpoint::check("spawn.before")?;
    let mut child = command.spawn()?;
    // Closes the daemon's copies of the locks.
    drop(command);
    match identify(&child) {
        Ok(process) => Ok(Started { process, child, introduction }),
        Err(error) => {
            end(&mut child)?;
            Err(error)
        }
    }
}

fn identify(child: &Child) -> io::Result<ProcessId> {
    let pid = i32::try_from(child.id()).map_err(io::Error::other)?;
    Ok(ProcessId { pid, start_time: proc::start_time(pid)? })
}

/// Kills and reaps a child.
fn end(child: &mut Child) -> io::Result<ExitStatus> {
    // The child may have ended by itself.
    let _ = child.kill();
    child.wait()
}

impl Started {
    /// Writes the start parameters and waits until the runtime listens. Blocks its thread until
    /// then, or until the runtime ends.
    ///
    /// # Errors
    /// `Interrupted` if a signal ended the runtime, `StorageFull` if its disk is full,
    /// `UnexpectedEof` if it ended otherwise. The runtime is reaped in each case.
    pub(crate) fn wait_until_listening(mut self) -> io::Result<Child> {
        subagent_failpoint::hit("introduction.before_write");
        // A runtime that does not read this has ended, or will not report that it listens.
        if let Some(mut stdin) = self.child.stdin.take() {
            let _ = stdin.write_all(&self.introduction);
        }
        let mut line = [0; 16];
        let mut stdout =
            self.child.stdout.take().ok_or_else(|| io::Error::other("the runtime has no standard output"))?;
        if matches!(stdout.read(&mut line), Ok(1..)) {
            // From now on, the runtime writes to its log.
            drop(self.child.stderr.take());
            return Ok(self.child);
        }
        // The runtime is dead or unusable. It is reaped here because no other task waits for it.
        let status = end(&mut self.child)?;
        if status.signal().is_some() {
            let message = format!("it ended before it listened ({status})");
            return Err(io::Error::new(io::ErrorKind::Interrupted, message));
        }
        // No other process holds this pipe, so this reads all that was written.
        let mut said = Vec::new();
        if let Some(stderr) = self.child.stderr.take() {
            let _ = stderr.take(MAX_SAID).read_to_end(&mut said);
        }
        let said = String::from_utf8_lossy(&said);
        let message = format!("it ended before it listened ({status}): {}", said.trim());
        let full = status.code() == Some(i32::from(STORAGE_FULL_EXIT));
        let kind = if full { io::ErrorKind::StorageFull } else { io::ErrorKind::UnexpectedEof };
        Err(io::Error::new(kind, message))
    }
}

#[allow(unsafe_code)]
fn register(pidfd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` gives the same open descriptor while it lives, and nothing here closes
    // it early.
    unsafe { AsyncFd::register(pidfd) }.map_err(io::Error::from)
}

/// Reaps a child that will end by itself, in the background.
pub(crate) fn reap_later(mut child: Child) {
    // The blocked thread holds no resources, and ends with the process.
    std::thread::spawn(move || child.wait());
}

/// Waits for the end of a process through a pidfd, without polling.
pub(crate) struct ExitWatch {
    process: ProcessId,
    pidfd: AsyncFd<OwnedFd>,
}

impl ExitWatch {
    /// Watches a process. `None` if it has ended already.
    ///
    /// # Errors
    /// Those of the system.
    pub(crate) fn of(process: ProcessId) -> io::Result<Option<Self>> {
        let Some(pid) = Pid::from_raw(process.pid) else { return Ok(None) };
        let pidfd = match pidfd_open(pid, PidfdFlags::NONBLOCK) {
            Ok(pidfd) => pidfd,
            Err(rustix::io::Errno::SRCH) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        // The descriptor refers to the current process with this pid. Its start time shows whether
        // that is the expected one.
        match proc::start_time(process.pid) {
            Ok(start_time) if start_time == process.start_time => {}
            Ok(_) => return Ok(None),
            Err(error) if proc::is_gone(&error) => return Ok(None),
            Err(error) => return Err(error),
        }
        Ok(Some(Self { process, pidfd: register(pidfd)? }))
    }

    pub(crate) fn process(&self) -> ProcessId {
        self.process
    }

    /// Returns when the process has ended.
    pub(crate) async fn ended(&self) {
        // On an error, the descriptor cannot be waited for any more. The locks decide then.
        let _ = self.pidfd.readable().await;
    }

    /// Kills the watched process.
    pub(crate) fn kill(&self) {
        if let Err(error) = pidfd_send_signal(self.pidfd.get_ref(), Signal::KILL) {
            tracing::warn!(pid = self.process.pid, %error, "a runtime could not be killed");
        }
    }
}
