//! Being told by the kernel that a file was removed, moved away or written. What exactly happened is not read: whoever is told
//! looks for itself.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use nix::errno::Errno;
use nix::libc;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// The end of the file itself, its move, and (with `ATTRIB`) the loss of one of its names while it is still open.
const LEAVES: u32 = libc::IN_DELETE_SELF | libc::IN_MOVE_SELF | libc::IN_ATTRIB;
/// Somebody who had it open for writing has closed it.
const WRITTEN: u32 = libc::IN_CLOSE_WRITE;

/// An inotify instance. Ends with its owner.
#[derive(Debug)]
pub(super) struct Inotify(AsyncFd<OwnedFd>);

impl Inotify {
    /// A new one, without anything to watch.
    ///
    /// # Errors
    /// When the user has too many (`fs.inotify.max_user_instances`).
    #[allow(unsafe_code)]
    pub(super) fn new() -> io::Result<Self> {
        // SAFETY: takes no pointers; a result that is no error is a new descriptor, which is ours alone.
        let fd = unsafe {
            let fd = Errno::result(libc::inotify_init1(libc::IN_NONBLOCK | libc::IN_CLOEXEC))?;
            OwnedFd::from_raw_fd(fd)
        };
        // SAFETY: an `OwnedFd` is an open descriptor, and nothing replaces or closes it while this value has it.
        Ok(Self(unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) }?))
    }

    /// Also watches what this path leads to now.
    ///
    /// # Errors
    /// When it is not there.
    #[allow(unsafe_code)]
    pub(super) fn watch(&self, path: &Path) -> io::Result<()> {
        let name = CString::new(path.as_os_str().as_bytes())?;
        // SAFETY: the descriptor is open, and the string ends with a NUL and lives beyond the call.
        let outcome =
            unsafe { libc::inotify_add_watch(self.0.get_ref().as_raw_fd(), name.as_ptr(), LEAVES | WRITTEN) };
        Errno::result(outcome)?;
        Ok(())
    }

    /// Waits until something has happened since the last call.
    ///
    /// # Errors
    /// When the descriptor cannot be read.
    pub(super) async fn changed(&self) -> io::Result<()> {
        let mut buffer = [0; 4096];
        let mut seen = false;
        loop {
            let mut ready = self.0.readable().await?;
            // Reads all there is: one look by the caller answers for all of it.
            while let Ok(read) = ready.try_io(|fd| Ok(nix::unistd::read(fd.get_ref(), &mut buffer)?)) {
                seen |= read? > 0;
            }
            if seen {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use super::*;

    async fn told(inotify: &Inotify) {
        tokio::time::timeout(Duration::from_secs(20), inotify.changed()).await.expect("to be told").unwrap();
    }

    #[tokio::test]
    async fn removal_and_move_are_told_also_of_open_files() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let inotify = Inotify::new().unwrap();
        inotify.watch(&path).unwrap_err();

        let _open = fs::File::create(&path).unwrap();
        inotify.watch(&path).unwrap();
        fs::remove_file(&path).unwrap();
        told(&inotify).await;

        fs::write(&path, "").unwrap();
        inotify.watch(&path).unwrap();
        fs::rename(&path, dir.path().join("g")).unwrap();
        told(&inotify).await;

        let _socket = std::os::unix::net::UnixListener::bind(dir.path().join("s")).unwrap();
        inotify.watch(&dir.path().join("s")).unwrap();
        fs::remove_file(dir.path().join("s")).unwrap();
        told(&inotify).await;
    }
}
