//! The socket of the task server below a placed worker's agent: announced like a daemon's, so that
//! `subagent mcp` finds it. Must not accept processes of other workers.

use std::fs::{self, DirBuilder};
use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use nix::sys::socket::{Shutdown, getsockopt, shutdown, sockopt};
use subagent_protocol::api::DaemonInfo;
use subagent_protocol::placement::PLACED_MODE;
use subagent_protocol::process::ProcessId;
use subagent_protocol::time::Timestamp;
use subagent_protocol::{OLDEST_PROTOCOL, PROTOCOL};

use super::folder::PlacedFolder;
use crate::guard::ancestry;
use crate::socket::is_handle_of;

/// The file in which clients find the socket.
const ANNOUNCEMENT: &str = "daemon.json";

/// The listening socket. Dropping it removes its file and the announcement, if no later `dial` has
/// replaced them.
pub(super) struct TaskSocket {
    folder: Arc<PlacedFolder>,
    listener: UnixListener,
    path: PathBuf,
    announcement: PathBuf,
    /// Only processes below it are accepted.
    runtime: ProcessId,
}

impl TaskSocket {
    /// Listens for the processes below the runtime at the other end of `runtime`, and announces it in
    /// place of the socket of an earlier `dial`.
    ///
    /// # Errors
    ///
    /// The system's: the path may be too long for a socket.
    pub(super) fn listen(
        folder: &Arc<PlacedFolder>,
        runtime: &UnixStream,
        generation: u64,
    ) -> io::Result<Self> {
        let pid = getsockopt(runtime, sockopt::PeerCredentials)?.pid();
        let runtime = ProcessId { pid, start_time: ancestry::start_time(pid)? };
        let directory = folder.task_folder();
        if !directory.is_dir() {
            DirBuilder::new().mode(0o700).create(&directory)?;
        }
        let own = i32::try_from(std::process::id()).map_err(io::Error::other)?;
        let process = ProcessId { pid: own, start_time: ancestry::start_time(own)? };
        // Two of them never have one path, so none removes the file of another one.
        let path = directory.join(own.to_string());
        let _lock = folder.lock_record()?;
        for entry in fs::read_dir(&directory)?.flatten() {
            if entry.file_name() != ANNOUNCEMENT {
                // One that cannot be removed is harmless: it is not announced.
                let _ = fs::remove_file(entry.path());
            }
        }
        let listener = UnixListener::bind(&path)?;
        let socket = Self {
            folder: Arc::clone(folder),
            listener,
            path,
            announcement: directory.join(ANNOUNCEMENT),
            runtime,
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let info = DaemonInfo {
            protocol: PROTOCOL,
            oldest_protocol: OLDEST_PROTOCOL,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            process,
            generation,
            socket: socket.path.clone(),
            state_dir: directory.clone(),
            state_folder: None,
            mode: PLACED_MODE.to_owned(),
            ending: false,
            started_at: Timestamp(i64::try_from(now.as_millis()).unwrap_or(i64::MAX)),
        };
        let new = directory.join("daemon.json.new");
        let mut file =
            fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        file.write_all(&serde_json::to_vec(&info)?)?;
        // It need not survive a power failure: no process of the worker does.
        fs::rename(&new, &socket.announcement)?;
        Ok(socket)
    }

    /// Returns the next connection of a process of this worker. Others are closed.
    ///
    /// # Errors
    ///
    /// The system's, and after [`Self::close`].
    pub(super) fn accept(&self) -> io::Result<UnixStream> {
        loop {
            match self.listener.accept() {
                Ok((stream, _)) if is_below(&stream, self.runtime).unwrap_or(false) => return Ok(stream),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Ends [`Self::accept`] in another thread.
    pub(super) fn close(&self) {
        let _ = shutdown(self.listener.as_raw_fd(), Shutdown::Both);
        let _ = fs::remove_file(&self.path);
        // A later `dial` has written its own. Without the lock, the file stays and names no socket.
        let Ok(_lock) = self.folder.lock_record() else { return };
        let is_own = fs::read(&self.announcement).ok().is_some_and(|bytes| {
            serde_json::from_slice::<DaemonInfo>(&bytes).is_ok_and(|info| info.socket == self.path)
        });
        if is_own {
            let _ = fs::remove_file(&self.announcement);
        }
    }
}

impl Drop for TaskSocket {
    fn drop(&mut self) {
        self.close();
    }
}

/// Whether the peer is a process of this user below the runtime, and not below the guard of another
/// worker below it.
fn is_below(stream: &UnixStream, runtime: ProcessId) -> io::Result<bool> {
    let credentials = getsockopt(stream, sockopt::PeerCredentials)?;
    if credentials.uid() != nix::unistd::geteuid().as_raw() {
        return Ok(false);
    }
    let pid = credentials.pid();
    // With a pidfd the pid cannot be reused meanwhile. Without one, the start time reveals a reuse.
    let handle = getsockopt(&stream.as_fd(), sockopt::PeerPidfd).ok();
    let before = ancestry::start_time(pid)?;
    let (chain, guards) = (ancestry::ancestors(pid)?, ancestry::guards_above(pid)?);
    let is_same = match &handle {
        Some(handle) => is_handle_of(handle, pid)?,
        None => ancestry::start_time(pid)? == before,
    };
    let Some(at) = chain.iter().position(|ancestor| *ancestor == runtime) else { return Ok(false) };
    // The only guard between them is that of this runtime.
    Ok(is_same && chain[..at].iter().filter(|ancestor| guards.contains(ancestor)).count() <= 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_processes_below_the_runtime_are_accepted() {
        let own = i32::try_from(std::process::id()).unwrap();
        let parent = nix::unistd::Pid::parent().as_raw();
        let process = |pid| ProcessId { pid, start_time: ancestry::start_time(pid).unwrap() };
        let (ours, _theirs) = UnixStream::pair().unwrap();
        assert!(is_below(&ours, process(parent)).unwrap());
        assert!(!is_below(&ours, process(own)).unwrap());
        let reused = ProcessId { start_time: process(parent).start_time + 1, ..process(parent) };
        assert!(!is_below(&ours, reused).unwrap());
    }
}
