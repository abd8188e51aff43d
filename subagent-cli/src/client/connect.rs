//! From `daemon.json` to an HTTP connection.

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

use super::lock::on_thread;
use crate::failure::{Failure, Result};

/// A connection to a daemon. It ends when it is dropped.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) sender: http1::SendRequest<Full<Bytes>>,
    pub(super) info: DaemonInfo,
    /// The state dir that requests are meant for; `None` where the daemon was found without one.
    pub(super) folder: Option<StateFolder>,
    pub(super) since: Instant,
}

/// What `daemon.json` says; `None` if it is missing, says nothing that can be used, or was copied from another state dir
/// together with what it lies in.
///
/// It is written atomically before the daemon is ready and removed at its end; after a crash it stays and is wrong.
#[must_use]
pub fn read_info(state_dir: &Path) -> Option<DaemonInfo> {
    announced(state_dir).filter(|info| announces(info, state_dir))
}

/// What a copied `daemon.json` says of the daemon of the original; `None` unless this state dir is a copy that no daemon
/// has served yet.
#[must_use]
pub fn foreign_info(state_dir: &Path) -> Option<DaemonInfo> {
    // One that a crash left may have another device number since the system was started again.
    announced(state_dir).filter(|info| info.state_dir != state_dir && !announces(info, state_dir))
}

fn announced(state_dir: &Path) -> Option<DaemonInfo> {
    let bytes = regular::read(&info_path(state_dir)).ok()?;
    serde_json::from_slice(&bytes).ok()
}

/// Where a daemon says how it can be reached.
pub(super) fn info_path(state_dir: &Path) -> PathBuf {
    state_dir.join("daemon.json")
}

/// Connects to the daemon that `daemon.json` names; `None` if there is none.
///
/// # Errors
/// `DAEMON_TOO_OLD`, `DAEMON_TOO_NEW`, `STATE_DIR_UNWRITABLE`; `DAEMON_UNRESPONSIVE` if it takes no connection before the deadline.
pub(super) async fn attempt(state_dir: &Path, deadline: Instant) -> Result<Option<Link>> {
    let Some(info) = read_info(state_dir) else { return unreadable(state_dir) };
    understood(&info)?;
    let folder = folder_at(state_dir).ok();
    Ok(link(info, deadline).await?.map(|link| Link { folder, ..link }))
}

/// Connects to a daemon of which this is known; `None` if nobody listens on its socket.
///
/// # Errors
/// `DAEMON_UNRESPONSIVE` if it takes no connection before the deadline, `DAEMON_NOT_RUNNING`.
pub(super) async fn link(info: DaemonInfo, deadline: Instant) -> Result<Option<Link>> {
    let Some(stream) = stream(&info, deadline).await? else { return Ok(None) };
    let link = http1::handshake(TokioIo::new(stream)).await;
    let (sender, connection) =
        link.map_err(|error| Failure::internal(format!("cannot set up an HTTP connection: {error}")))?;
    // It ends when the sender is dropped or the daemon closes; the sender then reports how.
    tokio::spawn(connection);
    Ok(Some(Link { sender, info, folder: None, since: Instant::now() }))
}

/// Nothing is announced. A folder in the place of the file no daemon can replace: waiting for it would be in vain.
fn unreadable(state_dir: &Path) -> Result<Option<Link>> {
    let path = info_path(state_dir);
    if !path.symlink_metadata().is_ok_and(|meta| meta.is_dir()) {
        return Ok(None);
    }
    let message = format!("{} is a folder: no daemon can say there where it listens", path.display());
    Err(Failure::new(Code::StateDirUnwritable, message)
        .with("stateDir", state_dir.to_string_lossy().into_owned())
        .recommend(in_the_way(&path)))
}

/// A file of the state dir that this program cannot use: `STATE_DIR_UNWRITABLE`, or `STORAGE_FULL`.
pub(super) fn unusable(state_dir: &Path, what: &str, path: &Path, error: &io::Error) -> Failure {
    Error::new(Code::StateDirUnwritable, format!("{what} {}: {error}", path.display()))
        .with("stateDir", state_dir.to_string_lossy().into_owned())
        .with("error", error.to_string())
        .recommend(in_the_way(path))
        .or_storage_full(error)
        .into()
}

/// What to do about something that is not what its name says.
fn in_the_way(path: &Path) -> String {
    let quoted = shell_words::quote(&path.to_string_lossy()).into_owned();
    format!(
        "see what is there with `ls -ld {quoted}`, and move it away if it is no file of yours; `subagent doctor` says more"
    )
}

/// Whether daemon and client speak a common protocol.
fn understood(info: &DaemonInfo) -> Result<()> {
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

/// A connection to the socket; `None` if nobody listens there.
async fn stream(info: &DaemonInfo, deadline: Instant) -> Result<Option<UnixStream>> {
    let connected = match timeout_at(deadline, UnixStream::connect(&info.socket)).await {
        Ok(Err(error)) if error.kind() == io::ErrorKind::WouldBlock => {
            full_queue(&info.socket, deadline).await
        }
        Ok(result) => result.map(Some),
        Err(_) => Ok(None),
    };
    match connected {
        Ok(Some(stream)) => Ok(Some(stream)),
        Ok(None) => Err(unresponsive(info, "it takes no connection")),
        Err(error) if is_gone(&error) => Ok(None),
        Err(error) => Err(Failure::new(
            Code::DaemonNotRunning,
            format!("cannot connect to the daemon's socket {}: {error}", info.socket.display()),
        )
        .with("socket", info.socket.to_string_lossy().into_owned())
        .with("error", error.to_string())),
    }
}

/// The daemon's queue of connections is full: only a call that blocks is told when there is room.
async fn full_queue(socket: &Path, deadline: Instant) -> io::Result<Option<UnixStream>> {
    let socket = socket.to_owned();
    let Some(stream) = on_thread(deadline, move || StdStream::connect(socket)).await? else {
        return Ok(None);
    };
    stream.set_nonblocking(true)?;
    UnixStream::from_std(stream).map(Some)
}

/// The error for a daemon that lives and does not answer.
pub(super) fn unresponsive(info: &DaemonInfo, what: &str) -> Failure {
    let pid = info.process.pid;
    let (what, advice) = if proc::is_stopped(pid) {
        // It could not even end: a stopped process hears of no signal but these.
        let advice = format!(
            "let it go on with `kill -CONT {pid}`, or end it with `kill -KILL {pid}`: workers go on and the next command starts a new daemon"
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

/// Whether nobody listens there: also a daemon that dies with us in its backlog.
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
        // Left behind by a crash: the file is there, nobody listens.
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
