//! Notifies about removed, moved or written files. Event contents are not read: the receiver checks
//! the files itself.

use std::io;
use std::os::fd::{AsFd as _, AsRawFd, RawFd};
use std::path::Path;

use nix::errno::Errno;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify as Queue};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// An inotify instance. It is closed on drop.
#[derive(Debug)]
pub(crate) struct Inotify(AsyncFd<InotifyFd>);

#[derive(Debug)]
struct InotifyFd(Queue);

impl AsRawFd for InotifyFd {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_fd().as_raw_fd()
    }
}

impl Inotify {
    /// Creates an instance without watches.
    ///
    /// # Errors
    /// The user has too many instances (`fs.inotify.max_user_instances`).
    #[allow(unsafe_code)]
    pub(crate) fn new() -> io::Result<Self> {
        let queue = Queue::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC)?;
        // SAFETY: the queue's descriptor is open, and nothing replaces or closes it while this value has it.
        Ok(Self(unsafe { AsyncFd::register_with_interest(InotifyFd(queue), Interest::READABLE) }?))
    }

    /// Watches the file that this path leads to: its deletion, its move, the loss of one of its
    /// names while open (`ATTRIB`), and a close after writing.
    ///
    /// # Errors
    /// The file does not exist.
    pub(crate) fn watch(&self, path: &Path) -> io::Result<()> {
        let what = AddWatchFlags::IN_DELETE_SELF
            | AddWatchFlags::IN_MOVE_SELF
            | AddWatchFlags::IN_ATTRIB
            | AddWatchFlags::IN_CLOSE_WRITE;
        self.0.get_ref().0.add_watch(path, what)?;
        Ok(())
    }

    /// Watches the entries of a folder: what is created, written, moved or removed there.
    ///
    /// # Errors
    /// The folder does not exist.
    pub(crate) fn watch_entries(&self, folder: &Path) -> io::Result<()> {
        let what = AddWatchFlags::IN_CLOSE_WRITE
            | AddWatchFlags::IN_CREATE
            | AddWatchFlags::IN_MOVED_TO
            | AddWatchFlags::IN_MOVED_FROM
            | AddWatchFlags::IN_DELETE;
        self.0.get_ref().0.add_watch(folder, what)?;
        Ok(())
    }

    /// Watches the names in a folder: what is created, moved or removed there.
    ///
    /// # Errors
    /// The folder does not exist.
    pub(crate) fn watch_names(&self, folder: &Path) -> io::Result<()> {
        let what = AddWatchFlags::IN_CREATE
            | AddWatchFlags::IN_MOVED_TO
            | AddWatchFlags::IN_MOVED_FROM
            | AddWatchFlags::IN_DELETE;
        self.0.get_ref().0.add_watch(folder, what)?;
        Ok(())
    }

    /// Watches all ancestor folders of the path for moves. Unwatchable folders are skipped.
    pub(crate) fn watch_folders_of(&self, path: &Path) {
        for folder in path.ancestors().skip(1) {
            let _ = self.0.get_ref().0.add_watch(folder, AddWatchFlags::IN_MOVE_SELF);
        }
    }

    /// Waits for an event since the last call.
    ///
    /// # Errors
    /// The descriptor cannot be read.
    pub(crate) async fn changed(&self) -> io::Result<()> {
        let mut seen = false;
        loop {
            let mut ready = self.0.readable().await?;
            // Drains the queue: one check by the caller covers all events.
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

    async fn notified(inotify: &Inotify) {
        tokio::time::timeout(Duration::from_secs(20), inotify.changed()).await.expect("to be told").unwrap();
    }

    #[tokio::test]
    async fn removal_and_move_are_reported_also_of_open_files() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let inotify = Inotify::new().unwrap();
        inotify.watch(&path).unwrap_err();

        let _open = fs::File::create(&path).unwrap();
        inotify.watch(&path).unwrap();
        fs::remove_file(&path).unwrap();
        notified(&inotify).await;

        fs::write(&path, "").unwrap();
        inotify.watch(&path).unwrap();
        fs::rename(&path, dir.path().join("g")).unwrap();
        notified(&inotify).await;

        let _socket = std::os::unix::net::UnixListener::bind(dir.path().join("s")).unwrap();
        inotify.watch(&dir.path().join("s")).unwrap();
        fs::remove_file(dir.path().join("s")).unwrap();
        notified(&inotify).await;
    }
}
