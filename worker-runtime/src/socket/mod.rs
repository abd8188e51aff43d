//! The command socket: its location, its permitted peers, and one task per connection.
//!
//! Carries no events: only commands, their replies, and the length of the journal.

mod connection;
mod peer;

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use interprocess::local_socket::tokio::{Listener, Stream};
use interprocess::local_socket::traits::tokio::Listener as _;
use interprocess::local_socket::{GenericFilePath, ListenerOptions, ToFsName};
use interprocess::os::unix::local_socket::ListenerOptionsExt;

pub(crate) use connection::{ConnectionEvent, EventKind, serve, turn_away};
pub(crate) use peer::{PeerAdmission, is_handle_of, judge};

/// The bound command socket.
pub(crate) struct Endpoint {
    path: PathBuf,
    listener: Listener,
    file: (u64, u64),
}

impl Endpoint {
    /// Binds the socket. Replaces an existing file, which belongs to a dead predecessor: the holder
    /// of the worker's lock owns the path.
    ///
    /// # Errors
    ///
    /// The system's error, with the path.
    pub(crate) fn bind(path: &Path) -> io::Result<Self> {
        let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
        subagent_failpoint::check("runtime_socket.before_bind").map_err(named)?;
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(named(error)),
            _ => {}
        }
        let name = path.to_fs_name::<GenericFilePath>().map_err(named)?;
        // We remove the file ourselves: the library would also remove a successor's.
        let options = ListenerOptions::new().name(name).mode(0o600).reclaim_name(false);
        let listener = options.create_tokio().map_err(named)?;
        let metadata = fs::symlink_metadata(path).map_err(named)?;
        subagent_failpoint::hit("runtime_socket.after_bind");
        Ok(Self { path: path.to_owned(), listener, file: (metadata.dev(), metadata.ino()) })
    }

    /// Whether its file still exists.
    pub(crate) fn is_there(&self) -> bool {
        fs::symlink_metadata(&self.path).is_ok_and(|metadata| (metadata.dev(), metadata.ino()) == self.file)
    }

    pub(crate) fn remove(&self) {
        if self.is_there() {
            subagent_failpoint::hit("runtime_socket.before_unlink");
            // It may be gone by now, which is the intended result.
            let _ = fs::remove_file(&self.path);
        }
    }

    /// Returns the next connection.
    ///
    /// # Errors
    ///
    /// The system's error, for example too many open files.
    pub(crate) async fn accept(&self) -> io::Result<Stream> {
        self.listener.accept().await
    }
}
