//! Decides who becomes the daemon of a state dir: the holder of `daemon.lock`. A foreground daemon
//! asks a background one to stop; no other daemon is displaced.

use std::path::Path;
use std::time::Duration;

use axum::http::Method;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;
use subagent_config::proc;
use subagent_protocol::api::DaemonInfo;
use subagent_protocol::process::ProcessId;
use subagent_protocol::{Code, Error, Result};

use super::files::{DAEMON_LOCK, START_LOCK, daemon_info};
use super::lock::{FileLock, Note};
use crate::lifecycle::options::{RunOptions, StartMode};
use crate::lifecycle::{client, error};

/// Maximum wait of a foreground daemon for a background one that is being started.
const START_TIME: Duration = Duration::from_secs(40);
/// Maximum wait of a foreground daemon for the background one's answer, and then for its exit.
const STOP_ANSWER_TIME: Duration = Duration::from_secs(20);
const TAKEOVER_TIME: Duration = Duration::from_secs(30);
/// Maximum wait of a background daemon for an answer from the holder of the lock.
const PROBE_TIME: Duration = Duration::from_secs(5);
/// Maximum wait for a daemon that is ending or starting; shorter than its starter's timeout.
const ENDING_TIME: Duration = Duration::from_secs(20);

/// The mode in the note of `subagentd run --once`.
pub(in crate::lifecycle) const ONCE: &str = "once";

/// The exclusive right to be the daemon of the state dir.
#[derive(Debug)]
pub(in crate::lifecycle) struct DaemonClaim {
    /// Held for the daemon's whole life.
    pub(in crate::lifecycle) lock: FileLock,
    /// Held until readiness, so that no command starts a background daemon during a takeover.
    pub(in crate::lifecycle) starting: Option<FileLock>,
    /// Identity of this process.
    pub(in crate::lifecycle) process: ProcessId,
}

/// Takes `daemon.lock` and writes the holder's note.
///
/// # Errors
/// `DAEMON_ALREADY_RUNNING{pid,mode}`; `DAEMON_START_FAILED` if a lock cannot be used.
pub(in crate::lifecycle) fn claim(options: &RunOptions) -> Result<DaemonClaim> {
    let process = own_process()?;
    let starting = match options.mode {
        // The command that starts a background daemon holds this lock itself.
        StartMode::Background => None,
        StartMode::Foreground => Some(start_lock(&options.state_dir.join(START_LOCK))?),
    };
    let path = options.state_dir.join(DAEMON_LOCK);
    let at_path = |cause| error::at_path("its lock cannot be taken:", &path, &cause);
    let lock = match FileLock::try_take(&path).map_err(at_path)? {
        Some(lock) => lock,
        None => {
            let time = make_room(options, &path)?;
            // A daemon without a starter (it was killed, or it would hold `start.lock`) serves
            // soon.
            let in_vain = || options.mode == StartMode::Background && serves(&options.state_dir);
            let taken = FileLock::take_unless(&path, time, in_vain).map_err(at_path)?;
            taken.ok_or_else(|| already_running(Note::read(&path).as_ref()))?
        }
    };
    let note = Note { process, mode: options.mode.as_str().to_owned() };
    lock.write_note(&note).map_err(at_path)?;
    Ok(DaemonClaim { lock, starting, process })
}

pub(in crate::lifecycle) fn start_lock(path: &Path) -> Result<FileLock> {
    start_lock_within(path, START_TIME)
}

fn start_lock_within(path: &Path, time: Duration) -> Result<FileLock> {
    FileLock::take_within(path, time)
        .map_err(|cause| error::at_path("its lock cannot be taken:", path, &cause))?
        .ok_or_else(|| start_refused(path, time))
}

/// The error when `start.lock` is held too long. Only a restore writes a note into it.
fn start_refused(path: &Path, time: Duration) -> Error {
    let seconds = time.as_secs();
    let error = |message: String| {
        Error::new(Code::DaemonStartFailed, message).with("path", path.display().to_string()).retryable()
    };
    match Note::read(path).filter(|note| note.process_lives()) {
        Some(note) => {
            let pid = note.process.pid;
            error(format!("a {} (pid {pid}) has been going on for more than {seconds} s", note.mode))
                .with("pid", pid)
                .with("mode", note.mode)
                .recommend("Wait for its end and try again.")
        }
        None => error(format!("another command has been starting a daemon for {seconds} s and does not end"))
            .recommend("Look for a hanging `subagent` or `subagentd` process, end it and try again."),
    }
}

/// Asks the holder of the lock to stop, where that is allowed. Returns how long to wait for the
/// lock.
fn make_room(options: &RunOptions, path: &Path) -> Result<Duration> {
    let note = Note::read(path);
    let info = daemon_info(&options.state_dir);
    if options.mode == StartMode::Background {
        let Some(info) = info else { return Ok(ENDING_TIME) };
        // A real request: the kernel accepts connections even for a process that is being killed.
        return match client::request(&info, Method::GET, "/v1/daemon", None, PROBE_TIME) {
            Err(error) if error.code == Code::DaemonNotRunning => Ok(ENDING_TIME),
            Err(error) if error.code == Code::DaemonUnresponsive => Err(error),
            // Any answer shows that it serves.
            _ => Err(already_running(note.as_ref())),
        };
    }
    match note.as_ref().map(|note| note.mode.as_str()) {
        Some(mode) if mode == StartMode::Foreground.as_str() => return Err(already_running(note.as_ref())),
        // A single health check ends by itself.
        Some(ONCE) => return Ok(TAKEOVER_TIME),
        _ => {}
    }
    ask_to_end(info.as_ref(), note.as_ref())?;
    Ok(TAKEOVER_TIME)
}

/// Asks the daemon that holds the lock to stop, by request or else by signal.
///
/// # Errors
/// `FORBIDDEN_FROM_WORKER`: a process below a worker may not take over.
pub(in crate::lifecycle) fn ask_to_end(info: Option<&DaemonInfo>, note: Option<&Note>) -> Result<()> {
    let asked = match info {
        Some(info) => {
            let body = json!({ "workers": false });
            client::request(info, Method::POST, "/v1/daemon/stop", Some(&body), STOP_ANSWER_TIME).map(drop)
        }
        None => Err(Error::new(Code::DaemonNotRunning, "there is no daemon.json")),
    };
    match asked {
        Err(error) if error.code == Code::ForbiddenFromWorker => return Err(error),
        // A stopped process would not handle the signal either.
        Err(error) if error.code == Code::DaemonUnresponsive && is_stopped(note) => return Err(error),
        // Its protocol differs, or it hangs. Every version handles the signal.
        Err(_) => terminate(note),
        Ok(()) => {}
    }
    Ok(())
}

/// Whether a daemon answers requests.
fn serves(state_dir: &Path) -> bool {
    daemon_info(state_dir).is_some_and(|info| {
        let answer = client::request(&info, Method::GET, "/v1/daemon", None, PROBE_TIME);
        !answer.is_err_and(|error| matches!(error.code, Code::DaemonNotRunning | Code::DaemonUnresponsive))
    })
}

fn is_stopped(note: Option<&Note>) -> bool {
    note.is_some_and(|Note { process, .. }| {
        proc::process(process.pid).is_ok_and(|now| now.stopped && now.start_time == process.start_time)
    })
}

/// Sends SIGTERM to the holder, if it is still the process that wrote the note.
fn terminate(note: Option<&Note>) {
    if let Some(note) = note.filter(|note| note.process_lives()) {
        // The process may have ended meanwhile, which is the goal.
        let _ = kill(Pid::from_raw(note.process.pid), Signal::SIGTERM);
    }
}

pub(in crate::lifecycle) fn already_running(note: Option<&Note>) -> Error {
    let error = |who: &str| {
        let error = Error::new(Code::DaemonAlreadyRunning, format!("{who} already serves this state dir"));
        match note.filter(|_| is_stopped(note)) {
            // A stopped process would not handle a stop request.
            Some(note) => error.recommend(client::advice(note.process.pid)),
            None => error
                .recommend("Use the running daemon, or end it first with `subagentd stop`; workers go on.")
                .with("recommendedCommand", "subagentd stop"),
        }
    };
    match note {
        Some(note) => error(&format!("a {} daemon (pid {})", note.mode, note.process.pid))
            .with("pid", note.process.pid)
            .with("mode", note.mode.as_str()),
        None => error("another daemon"),
    }
}

/// Returns pid and start time of this process.
///
/// # Errors
/// `DAEMON_START_FAILED` without `/proc`.
pub(in crate::lifecycle) fn own_process() -> Result<ProcessId> {
    let pid = nix::unistd::getpid().as_raw();
    let start_time = proc::start_time(pid)
        .map_err(|cause| error::start_failed("it cannot read its own start time from /proc", &cause))?;
    Ok(ProcessId { pid, start_time })
}

#[cfg(test)]
mod tests;
