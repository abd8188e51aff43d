//! Who may be the daemon of a state dir: whoever gets `daemon.lock`. A foreground daemon asks one in the background to
//! make room; nobody else is displaced.

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
use super::options::{Mode, RunOptions};
use super::{client, error};

/// How long a foreground daemon waits for whoever is just starting a background one.
const START_TIME: Duration = Duration::from_secs(40);
/// How long it waits for the background one to answer that it ends, and then for its end.
const STOP_ANSWER_TIME: Duration = Duration::from_secs(20);
const TAKEOVER_TIME: Duration = Duration::from_secs(30);
/// How long a background daemon waits for the holder of the lock to show that it serves.
const PROBE_TIME: Duration = Duration::from_secs(5);
/// How long it waits for one that is just ending or starting; less than its starter waits for it.
const ENDING_TIME: Duration = Duration::from_secs(20);

/// What `subagentd run --once` writes into the lock.
pub(super) const ONCE: &str = "once";

/// The right to be the daemon.
#[derive(Debug)]
pub(super) struct Claim {
    /// Kept for the whole life.
    pub(super) lock: FileLock,
    /// Kept until readiness, so that no command starts a background daemon while a foreground one takes over.
    pub(super) starting: Option<FileLock>,
    /// This process.
    pub(super) process: ProcessId,
}

/// Takes `daemon.lock` and writes down who holds it.
///
/// # Errors
/// `DAEMON_ALREADY_RUNNING{pid,mode}`; `DAEMON_START_FAILED` if a lock cannot be used.
pub(super) fn claim(options: &RunOptions) -> Result<Claim> {
    let process = own_process()?;
    let starting = match options.mode {
        // A command that starts one holds this lock itself.
        Mode::Background => None,
        Mode::Foreground => Some(start_lock(&options.state_dir.join(START_LOCK))?),
    };
    let path = options.state_dir.join(DAEMON_LOCK);
    let at_path = |cause| error::at_path("its lock cannot be taken:", &path, &cause);
    let lock = match FileLock::try_take(&path).map_err(at_path)? {
        Some(lock) => lock,
        None => {
            let time = make_room(options, &path)?;
            // One that was only starting (its starter was killed, or it would hold the start's lock) serves soon.
            let in_vain = || options.mode == Mode::Background && serves(&options.state_dir);
            let taken = FileLock::take_unless(&path, time, in_vain).map_err(at_path)?;
            taken.ok_or_else(|| already_running(Note::read(&path).as_ref()))?
        }
    };
    let note = Note { process, mode: options.mode.as_str().to_owned() };
    lock.write_note(&note).map_err(at_path)?;
    Ok(Claim { lock, starting, process })
}

pub(super) fn start_lock(path: &Path) -> Result<FileLock> {
    start_lock_within(path, START_TIME)
}

fn start_lock_within(path: &Path, time: Duration) -> Result<FileLock> {
    FileLock::take_within(path, time)
        .map_err(|cause| error::at_path("its lock cannot be taken:", path, &cause))?
        .ok_or_else(|| start_refused(path, time))
}

/// Who holds `start.lock` for so long. Only a restore writes down that it does.
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

/// Asks the holder of the lock to end, where that is right. Gives how long to wait for the lock.
fn make_room(options: &RunOptions, path: &Path) -> Result<Duration> {
    let note = Note::read(path);
    let info = daemon_info(&options.state_dir);
    if options.mode == Mode::Background {
        let Some(info) = info else { return Ok(ENDING_TIME) };
        // A real question: the kernel accepts connections for a process that is being killed, too.
        return match client::request(&info, Method::GET, "/v1/daemon", None, PROBE_TIME) {
            Err(error) if error.code == Code::DaemonNotRunning => Ok(ENDING_TIME),
            Err(error) if error.code == Code::DaemonUnresponsive => Err(error),
            // It serves, whatever it says to us.
            _ => Err(already_running(note.as_ref())),
        };
    }
    match note.as_ref().map(|note| note.mode.as_str()) {
        Some(mode) if mode == Mode::Foreground.as_str() => return Err(already_running(note.as_ref())),
        // It ends by itself.
        Some(ONCE) => return Ok(TAKEOVER_TIME),
        _ => {}
    }
    ask_to_end(info.as_ref(), note.as_ref())?;
    Ok(TAKEOVER_TIME)
}

/// Asks the daemon that holds the lock to end, with the request for that, or with a signal.
///
/// # Errors
/// `FORBIDDEN_FROM_WORKER`: from below a worker nothing is taken over.
pub(super) fn ask_to_end(info: Option<&DaemonInfo>, note: Option<&Note>) -> Result<()> {
    let asked = match info {
        Some(info) => {
            let body = json!({ "workers": false });
            client::request(info, Method::POST, "/v1/daemon/stop", Some(&body), STOP_ANSWER_TIME).map(drop)
        }
        None => Err(Error::new(Code::DaemonNotRunning, "there is no daemon.json")),
    };
    match asked {
        Err(error) if error.code == Code::ForbiddenFromWorker => return Err(error),
        // The signal would not reach it either.
        Err(error) if error.code == Code::DaemonUnresponsive && is_stopped(note) => return Err(error),
        // It speaks another protocol, or hangs: every version understands this.
        Err(_) => terminate(note),
        Ok(()) => {}
    }
    Ok(())
}

/// Whether a daemon answers.
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
        // It may have ended meanwhile, which is what we want.
        let _ = kill(Pid::from_raw(note.process.pid), Signal::SIGTERM);
    }
}

pub(super) fn already_running(note: Option<&Note>) -> Error {
    let error = |who: &str| {
        let error = Error::new(Code::DaemonAlreadyRunning, format!("{who} already serves this state dir"));
        match note.filter(|_| is_stopped(note)) {
            // It would hear nothing of a request to end.
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

/// This process.
///
/// # Errors
/// `DAEMON_START_FAILED` without `/proc`.
pub(super) fn own_process() -> Result<ProcessId> {
    let pid = nix::unistd::getpid().as_raw();
    let start_time = proc::start_time(pid)
        .map_err(|cause| error::start_failed("it cannot read its own start time from /proc", &cause))?;
    Ok(ProcessId { pid, start_time })
}

#[cfg(test)]
mod tests;
