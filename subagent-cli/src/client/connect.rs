//! Connects to the daemon of a `daemon.json` over HTTP.

use std::io;
use std::os::unix::net::UnixStream as StdStream;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use http_body_util::Full;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use subagent_config::state_identity::{announces, folder_at};
use subagent_config::{proc, regular};
use subagent_protocol::api::{DaemonInfo, StateFolder};
use subagent_protocol::{Code, Error, OLDEST_PROTOCOL, PROTOCOL};
use tokio::net::UnixStream;
use tokio::time::{Instant, timeout_at};

use super::far::SshProcess;
use super::starting::lock::on_thread;
use crate::failure::{Failure, Result};

/// Maximum size in bytes of a response from another host, which may send anything.
pub(super) const MAX_FAR_BODY: usize = 256 * 1024 * 1024;

/// A connection to a daemon; dropping it closes it.
#[derive(Debug)]
pub(super) struct DaemonConnection {
    pub(super) sender: http1::SendRequest<Full<Bytes>>,
    pub(super) info: DaemonInfo,
    /// The state dir of the requests; `None` if the daemon was found without one.
    pub(super) folder: Option<StateFolder>,
    pub(super) since: Instant,
    /// The process that carries the bytes, if the daemon is on another host. It ends after this.
    pub(super) ssh: Option<SshProcess>,
}

impl DaemonConnection {
    /// Maximum size of a response in bytes.
    pub(super) fn max_body(&self) -> usize {
        if self.ssh.is_some() { MAX_FAR_BODY } else { usize::MAX }
    }
}

/// Reads `daemon.json`; `None` if it is missing, unusable, or was copied with another state dir.
///
/// It is written atomically before the daemon is ready and removed at its end. After a crash it remains and
/// is outdated.
#[must_use]
pub fn read_info(state_dir: &Path) -> Option<DaemonInfo> {
    announced(state_dir).filter(|info| announces(info, state_dir))
}

/// Reads a copied `daemon.json` about the original's daemon; `None` unless this state dir is a copy without
/// a daemon so far.
#[must_use]
pub fn foreign_info(state_dir: &Path) -> Option<DaemonInfo> {
    // After a crash and a reboot the device number may differ.
    announced(state_dir).filter(|info| info.state_dir != state_dir && !announces(info, state_dir))
}

fn announced(state_dir: &Path) -> Option<DaemonInfo> {
    let bytes = regular::read(&info_path(state_dir)).ok()?;
    serde_json::from_slice(&bytes).ok()
}

/// Path of the file in which a daemon announces itself.
pub(crate) fn info_path(state_dir: &Path) -> PathBuf {
    state_dir.join("daemon.json")
}

/// Connects to the daemon of `daemon.json`; `None` if there is none.
///
/// # Errors
/// `DAEMON_TOO_OLD`, `DAEMON_TOO_NEW`, `STATE_DIR_UNWRITABLE`; `DAEMON_UNRESPONSIVE` if it accepts no
/// connection before the deadline.
pub(super) async fn attempt(state_dir: &Path, deadline: Instant) -> Result<Option<DaemonConnection>> {
    let Some(info) = read_info(state_dir) else { return unreadable(state_dir) };
    understood(&info)?;
    let folder = folder_at(state_dir).ok();
    Ok(link(info, deadline).await?.map(|link| DaemonConnection { folder, ..link }))
}

/// Connects to a known daemon; `None` if its socket has no listener.
///
/// # Errors
/// `DAEMON_UNRESPONSIVE` if it accepts no connection before the deadline, `DAEMON_NOT_RUNNING`.
pub(super) async fn link(info: DaemonInfo, deadline: Instant) -> Result<Option<DaemonConnection>> {
    match stream(&info, deadline).await? {
        Some(stream) => over(stream, info).await.map(Some),
        None => Ok(None),
    }
}

/// Speaks HTTP over a connected stream.
///
/// # Errors
/// `INTERNAL_ERROR`.
pub(super) async fn over(stream: UnixStream, info: DaemonInfo) -> Result<DaemonConnection> {
    let link = http1::handshake(TokioIo::new(stream)).await;
    let (sender, connection) =
        link.map_err(|error| Failure::internal(format!("cannot set up an HTTP connection: {error}")))?;
    // The task ends when the sender is dropped or the daemon closes; the sender then reports the error.
    tokio::spawn(connection);
    Ok(DaemonConnection { sender, info, folder: None, since: Instant::now(), ssh: None })
}

/// Handles a missing `daemon.json`. A folder under this name is an error, because no daemon can replace it.
fn unreadable(state_dir: &Path) -> Result<Option<DaemonConnection>> {
    let path = info_path(state_dir);
    if !path.symlink_metadata().is_ok_and(|meta| meta.is_dir()) {
        return Ok(None);
    }
    let message = format!("{} is a folder, so no daemon can announce its socket there", path.display());
    Err(Failure::new(Code::StateDirUnwritable, message)
        .with("stateDir", state_dir.to_string_lossy().into_owned())
        .recommend(in_the_way(&path)))
}

/// Returns the error for a file of the state dir that this program cannot use: `STATE_DIR_UNWRITABLE`, or
/// `STORAGE_FULL`.
pub(super) fn unusable(state_dir: &Path, what: &str, path: &Path, error: &io::Error) -> Failure {
    Error::new(Code::StateDirUnwritable, format!("{what} {}: {error}", path.display()))
        .with("stateDir", state_dir.to_string_lossy().into_owned())
        .with("error", error.to_string())
        .recommend(in_the_way(path))
        .or_storage_full(error)
        .into()
}

/// Returns advice about a file of the wrong type.
fn in_the_way(path: &Path) -> String {
    let quoted = shell_words::quote(&path.to_string_lossy()).into_owned();
    format!(
        "see what is there with `ls -ld {quoted}`, and move it away if it is not a file of yours; `subagent doctor` says more"
    )
}

/// Checks that daemon and client have a common protocol version.
pub(super) fn understood(info: &DaemonInfo) -> Result<()> {
    let (code, age, advice) = if info.protocol < OLDEST_PROTOCOL {
        (Code::DaemonTooOld, "older", "restart the daemon with the version of this command: `subagentd run`")
    } else if info.oldest_protocol > PROTOCOL {
        (Code::DaemonTooNew, "newer", "update this command to the version of the daemon")
    } else {
        return Ok(());
    };
    Err(Failure::new(
        code,
        format!(
            "the daemon (pid {}, version {}) is {age} than this command understands",
            info.process.pid, info.version
        ),
    )
    .with("pid", info.process.pid)
    .with("daemonVersion", info.version.as_str())
    .with("daemonProtocol", info.protocol)
    .with("protocol", PROTOCOL)
    .recommend(advice))
}

/// Connects to the socket; `None` if it has no listener.
pub(super) async fn stream(info: &DaemonInfo, deadline: Instant) -> Result<Option<UnixStream>> {
    let connected = match timeout_at(deadline, UnixStream::connect(&info.socket)).await {
        Ok(Err(error)) if error.kind() == io::ErrorKind::WouldBlock => {
            full_queue(&info.socket, deadline).await
        }
        Ok(result) => result.map(Some),
        Err(_) => Ok(None),
    };
    match connected {
        Ok(Some(stream)) => Ok(Some(stream)),
        Ok(None) => Err(unresponsive(info, "it accepts no connection")),
        Err(error) if is_gone(&error) => Ok(None),
        Err(error) => Err(Failure::new(
            Code::DaemonNotRunning,
            format!("cannot connect to the daemon's socket {}: {error}", info.socket.display()),
        )
        .with("socket", info.socket.to_string_lossy().into_owned())
        .with("error", error.to_string())),
    }
}

/// Connects if the daemon's backlog is full: only a blocking call waits for space in it.
async fn full_queue(socket: &Path, deadline: Instant) -> io::Result<Option<UnixStream>> {
    let socket = socket.to_owned();
    let Some(stream) = on_thread(deadline, move || StdStream::connect(socket)).await? else {
        return Ok(None);
    };
    stream.set_nonblocking(true)?;
    UnixStream::from_std(stream).map(Some)
}

/// Returns the error for a live daemon that does not answer.
pub(super) fn unresponsive(info: &DaemonInfo, what: &str) -> Failure {
    let pid = info.process.pid;
    let (what, advice) = if proc::is_stopped(pid) {
        // A stopped process handles only these signals, so it cannot exit itself.
        let advice = format!(
            "resume it with `kill -CONT {pid}`, or end it with `kill -KILL {pid}`: workers go on and the next command starts a new daemon"
        );
        ("it is stopped by a signal", advice)
    } else {
        let advice = format!(
            "see whether process {pid} is busy; ending it (kill {pid}) is safe: workers go on and the next command starts a new daemon"
        );
        (what, advice)
    };
    Failure::new(Code::DaemonUnresponsive, format!("the daemon (pid {pid}) does not answer: {what}"))
        .with("pid", pid)
        .with("socket", info.socket.to_string_lossy().into_owned())
        .with("log", info.state_dir.join("logs/subagentd.log").to_string_lossy().into_owned())
        .retryable()
        .recommend(advice)
}

/// Whether the socket has no listener. A reset counts too: the daemon died with this connection in its
/// backlog.
fn is_gone(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionRefused, ConnectionReset, NotFound};
    matches!(error.kind(), NotFound | ConnectionRefused | ConnectionReset)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(30)
    }

    fn write_info(dir: &Path, protocol: u32, oldest: u32) -> PathBuf {
        let socket = dir.join("s.sock");
        let info = json!({
            "protocol": protocol, "oldestProtocol": oldest, "version": "9.9.9",
            "process": {"pid": 1, "startTime": 1}, "generation": 1, "socket": socket, "stateDir": dir,
            "mode": "background", "startedAt": "2026-11-21T20:29:42+00:00",
        });
        std::fs::write(info_path(dir), info.to_string()).unwrap();
        socket
    }

    #[tokio::test]
    async fn without_a_usable_file_or_a_listener_there_is_no_daemon() {
        let dir = tempfile::tempdir().unwrap();
        assert!(attempt(dir.path(), soon()).await.unwrap().is_none());
        std::fs::write(info_path(dir.path()), "{\"protocol\": 1").unwrap();
        assert!(attempt(dir.path(), soon()).await.unwrap().is_none());
        let socket = write_info(dir.path(), PROTOCOL, OLDEST_PROTOCOL);
        assert!(attempt(dir.path(), soon()).await.unwrap().is_none());
        // A crash leaves the file without a listener.
        drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
        assert!(attempt(dir.path(), soon()).await.unwrap().is_none());
    }

    #[tokio::test]
    async fn the_daemon_of_the_original_is_none_of_a_copy() {
        let (dir, copy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let socket = write_info(dir.path(), PROTOCOL, OLDEST_PROTOCOL);
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        std::fs::copy(info_path(dir.path()), info_path(copy.path())).unwrap();
        assert!(attempt(copy.path(), soon()).await.unwrap().is_none());
        assert_eq!(foreign_info(copy.path()).unwrap().state_dir, dir.path());
        let link = attempt(dir.path(), soon()).await.unwrap().unwrap();
        assert_eq!(link.folder, folder_at(dir.path()).ok());
        assert!(foreign_info(dir.path()).is_none());
    }

    #[tokio::test]
    async fn a_folder_in_the_place_of_the_file_is_not_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(info_path(dir.path())).unwrap();
        assert!(attempt(dir.path(), soon()).await.unwrap_err().is(Code::StateDirUnwritable));
    }

    #[tokio::test]
    async fn a_listener_is_connected_to() {
        let dir = tempfile::tempdir().unwrap();
        let socket = write_info(dir.path(), PROTOCOL + 5, PROTOCOL);
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        assert_eq!(attempt(dir.path(), soon()).await.unwrap().unwrap().info.version, "9.9.9");
    }

    #[tokio::test]
    async fn protocols_without_a_common_number_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        write_info(dir.path(), OLDEST_PROTOCOL - 1, 0);
        assert!(attempt(dir.path(), soon()).await.unwrap_err().is(Code::DaemonTooOld));
        write_info(dir.path(), PROTOCOL + 1, PROTOCOL + 1);
        assert!(attempt(dir.path(), soon()).await.unwrap_err().is(Code::DaemonTooNew));
    }
}
