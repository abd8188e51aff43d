//! Being told by the kernel that a file was removed, moved away or written. What exactly happened is not read: whoever is told
//! looks for itself.

use std::io;
use std::os::fd::{AsFd as _, AsRawFd, RawFd};
use std::path::Path;

use nix::errno::Errno;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify as Queue};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// An inotify instance. Ends with its owner.
#[derive(Debug)]
pub(super) struct Inotify(AsyncFd<Raw>);

#[derive(Debug)]
struct Raw(Queue);

impl AsRawFd for Raw {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_fd().as_raw_fd()
    }
}

impl Inotify {
    /// A new one, without anything to watch.
    ///
    /// # Errors
    /// When the user has too many (`fs.inotify.max_user_instances`).
    #[allow(unsafe_code)]
    pub(super) fn new() -> io::Result<Self> {
        let queue = Queue::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC)?;
        // SAFETY: the queue's descriptor is open, and nothing replaces or closes it while this value has it.
        Ok(Self(unsafe { AsyncFd::register_with_interest(Raw(queue), Interest::READABLE) }?))
    }

    /// Also watches what this path leads to now: the end of the file itself, its move, (`ATTRIB`) the loss of one of its
    /// names while it is still open, and that somebody who had it open for writing has closed it.
    ///
    /// # Errors
    /// When it is not there.
    pub(super) fn watch(&self, path: &Path) -> io::Result<()> {
        let what = AddWatchFlags::IN_DELETE_SELF
            | AddWatchFlags::IN_MOVE_SELF
            | AddWatchFlags::IN_ATTRIB
            | AddWatchFlags::IN_CLOSE_WRITE;
        self.0.get_ref().0.add_watch(path, what)?;
        Ok(())
    }

    /// Watches whether one of the folders that the path lies in is moved. Those that cannot be watched are not.
    pub(super) fn watch_folders_of(&self, path: &Path) {
        for folder in path.ancestors().skip(1) {
            let _ = self.0.get_ref().0.add_watch(folder, AddWatchFlags::IN_MOVE_SELF);
        }
    }

    /// Waits until something has happened since the last call.
    ///
    /// # Errors
    /// When the descriptor cannot be read.
    pub(super) async fn changed(&self) -> io::Result<()> {
        let mut seen = false;
        loop {
            let mut ready = self.0.readable().await?;
            // Reads all there is: one look by the caller answers for all of it.
            loop {
                match ready.get_inner().0.read_events() {
                    Ok(events) => seen |= !events.is_empty(),
                    Err(Errno::EAGAIN) => break ready.clear_ready(),
                    Err(error) => return Err(error.into()),
                }
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
