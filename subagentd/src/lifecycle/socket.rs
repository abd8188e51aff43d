//! The daemon's socket file: bound and removed only by its owner.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tokio::net::UnixListener;

use super::claim::lock::FileLock;

/// A socket file created by this process.
#[derive(Debug)]
pub(super) struct SocketFile {
    path: PathBuf,
    /// Device and inode: another daemon may have replaced the file.
    identity: (u64, u64),
}

impl SocketFile {
    /// Binds the socket and replaces an existing file. The holder of the lock is the only daemon,
    /// so an existing socket belongs to a dead one.
    ///
    /// # Errors
    /// The lock was lost, or the socket cannot be created.
    pub(super) fn bind(path: &Path, lock: &FileLock) -> io::Result<(UnixListener, Self)> {
        if !lock.is_own() {
            return Err(io::Error::other("daemon.lock is not this daemon's any more"));
        }
        subagent_failpoint::check("socket.before_bind")?;
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(path)?;
        fs::set_permissions(path, Permissions::from_mode(0o600))?;
        if subagent_failpoint::sabotaged("socket.world") {
            fs::set_permissions(path, Permissions::from_mode(0o666))?;
            path.parent().map_or(Ok(()), |dir| fs::set_permissions(dir, Permissions::from_mode(0o755)))?;
        }
        let identity = identity(path)?;
        subagent_failpoint::hit("socket.after_bind");
        Ok((listener, Self { path: path.to_owned(), identity }))
    }

    /// Path of the socket file.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether clients still find this socket at its path.
    pub(super) fn is_in_place(&self) -> bool {
        identity(&self.path).is_ok_and(|found| found == self.identity)
    }

    /// Removes the file, unless another process replaced it.
    pub(super) fn remove(&self) {
        if self.is_in_place() {
            subagent_failpoint::hit("socket.before_unlink");
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    fs::symlink_metadata(path).map(|found| (found.dev(), found.ino()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    fn place() -> (tempfile::TempDir, PathBuf, FileLock) {
        let dir = tempfile::tempdir_in("/tmp").unwrap();
        let lock = FileLock::try_take(&dir.path().join("lock")).unwrap().unwrap();
        let path = dir.path().join("s");
        (dir, path, lock)
    }

    #[tokio::test]
    async fn a_stale_socket_is_replaced_by_a_private_one() {
        let (_dir, path, lock) = place();
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        let (_listener, socket) = SocketFile::bind(&path, &lock).unwrap();
        assert!(socket.is_in_place());
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        UnixStream::connect(&path).unwrap();
        socket.remove();
        assert!(!path.exists() && !socket.is_in_place());
    }

    #[tokio::test]
    async fn a_successors_socket_is_left_alone() {
        let (_dir, path, lock) = place();
        let (_old_listener, old) = SocketFile::bind(&path, &lock).unwrap();
        let (_listener, new) = SocketFile::bind(&path, &lock).unwrap();
        old.remove();
        assert!(new.is_in_place() && !old.is_in_place());
        UnixStream::connect(&path).unwrap();
    }

    #[tokio::test]
    async fn without_the_lock_nothing_is_touched() {
        let (_dir, path, lock) = place();
        fs::write(&path, "x").unwrap();
        fs::remove_file(lock.path()).unwrap();
        SocketFile::bind(&path, &lock).unwrap_err();
        assert_eq!(fs::read(&path).unwrap(), b"x");
    }
}
