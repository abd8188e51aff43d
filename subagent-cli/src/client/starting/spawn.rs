//! Starts the daemon's process and waits for its readiness line.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::libc::O_NOFOLLOW;
use serde::Deserialize;
use subagent_config::regular;
use subagent_protocol::Code;
use tokio::io::AsyncReadExt as _;
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::{Instant, timeout_at};

use super::autostart::start_failed;
use crate::client::DaemonLocator;
use crate::client::connect::unusable;
use crate::failure::{Failure, Result};

/// Maximum length of a readiness line in bytes.
const MAX_READINESS_BYTES: u64 = 64 * 1024;

#[derive(Debug)]
pub(in crate::client) enum Spawned {
    Ready,
    /// Another daemon holds the state dir.
    Held(Failure),
}

/// The line that a daemon writes when it is ready or has failed.
#[derive(Debug, Deserialize)]
struct Readiness {
    #[serde(default)]
    ready: bool,
    #[serde(default)]
    error: Option<Failure>,
}

/// Path of the daemon's log.
#[must_use]
pub fn log_path(state_dir: &Path) -> PathBuf {
    state_dir.join("logs/subagentd.log")
}

/// Starts a daemon in the background and waits until it is ready.
///
/// # Errors
/// The daemon's error; `DAEMON_START_FAILED` if it reports none.
pub(in crate::client) async fn daemon(
    place: &DaemonLocator,
    program: &Path,
    deadline: Instant,
) -> Result<Spawned> {
    let path = log_path(&place.state_dir);
    let log = open_log(&path)
        .map_err(|error| unusable(&place.state_dir, "cannot open the daemon's log", &path, &error))?;
    keep_descriptors_here();
    let checked = subagent_failpoint::check("daemon.before_spawn");
    let spawned = checked.and_then(|()| {
        Command::new(program)
            .args(["run", "--background", "--state-dir"])
            .arg(&place.state_dir)
            .env_clear()
            .envs(place.vars.iter().map(|(name, value)| (name, value)))
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
    });
    let mut child = spawned.map_err(|error| {
        start_failed(format!("cannot start {}: {error}", program.display()))
            .with("program", program.to_string_lossy().into_owned())
            .with("error", error.to_string())
            .recommend(
                "install subagent, subagentd, subagent-runtime and subagent-webhook into the same folder",
            )
    })?;
    subagent_failpoint::hit("daemon.after_spawn");
    let Some(stdout) = child.stdout.take() else {
        return Err(start_failed("the daemon has no readiness pipe"));
    };
    match timeout_at(deadline, readiness(stdout)).await {
        Ok(Ok(line)) => heard(&line, &mut child, deadline).await,
        Ok(Err(error)) => Err(start_failed(format!("cannot hear from the daemon: {error}"))),
        // The process continues: it may be migrating a large database, which a kill would restart.
        Err(_) => Err(start_failed("the daemon is still starting; try again later")
            .recommend("try again; `subagent daemon logs --lines 50` says what it does")),
    }
}

async fn heard(line: &str, child: &mut Child, deadline: Instant) -> Result<Spawned> {
    match serde_json::from_str(line) {
        Ok(Readiness { ready: true, .. }) => return Ok(Spawned::Ready),
        Ok(Readiness { error: Some(failure), .. }) => {
            // The daemon has finished. Reaping it here leaves no zombie of a long command.
            let _ = timeout_at(deadline, child.wait()).await;
            return if failure.is(Code::DaemonAlreadyRunning) {
                Ok(Spawned::Held(failure))
            } else {
                Err(failure)
            };
        }
        _ => {}
    }
    let status = match timeout_at(deadline, child.wait()).await {
        Ok(Ok(status)) => status.to_string(),
        _ => "still running".to_owned(),
    };
    Err(start_failed(format!("the daemon ended before it was ready ({status})"))
        .with("exitStatus", status)
        .recommend("look at logs/subagentd.log in the state dir"))
}

/// Reads the first line, or all output before the end.
async fn readiness(stdout: ChildStdout) -> io::Result<String> {
    let mut stdout = stdout.take(MAX_READINESS_BYTES);
    let mut text = Vec::new();
    while !text.contains(&b'\n') && stdout.read_buf(&mut text).await? > 0 {}
    let line = text.split(|byte| *byte == b'\n').next().unwrap_or_default();
    Ok(String::from_utf8_lossy(line).into_owned())
}

fn open_log(path: &Path) -> io::Result<File> {
    if let Some(folder) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    regular::open(path, OpenOptions::new().append(true).create(true).mode(0o600), O_NOFOLLOW)
}

/// Sets close-on-exec on all descriptors except the first three.
///
/// A shell passes its own to commands (`3>&1`). A daemon would keep them open for days, and block readers
/// that wait for the end of such a pipe.
fn keep_descriptors_here() {
    let Ok(entries) = std::fs::read_dir("/proc/self/fd") else { return };
    let numbers: Vec<i32> = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|fd| *fd > 2)
        .collect();
    for number in numbers {
        // SAFETY: fcntl(F_SETFD) neither reads nor closes anything; for a number that was closed in between
        // it fails with EBADF, which is ignored.
        #[allow(unsafe_code)]
        let descriptor = unsafe { BorrowedFd::borrow_raw(number) };
        let _ = fcntl(descriptor, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC));
    }
}

#[cfg(test)]
mod tests;
