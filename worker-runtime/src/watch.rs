//! Notices without polling that our files went away: the worker's directory, its lock, the command socket, and segments of
//! the journal, which the daemon deletes when it has taken them.
//!
//! Must not judge: it only says "look again". The files themselves are watched; of the folders that many
//! workers share only that they are moved, so that nobody is woken for somebody else's file.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::path::Path;

use nix::errno::Errno;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use tokio::io::unix::AsyncFd;

/// Unlinking changes the attributes (the number of links) of a file that is still open.
const GONE: AddWatchFlags = AddWatchFlags::IN_ATTRIB
    .union(AddWatchFlags::IN_MOVE_SELF)
    .union(AddWatchFlags::IN_DELETE_SELF)
    .union(AddWatchFlags::IN_DONT_FOLLOW);

/// The watch.
pub(crate) struct Watch {
    inotify: AsyncFd<Descriptor>,
}

struct Descriptor(Inotify);

impl AsFd for Descriptor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsRawFd for Descriptor {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_fd().as_raw_fd()
    }
}

impl Watch {
    /// Watches nothing yet.
    ///
    /// # Errors
    /// The system's: a user has few of them (`fs.inotify.max_user_instances`, often 128), shared with all his programs.
    #[allow(unsafe_code)]
    pub(crate) fn new() -> io::Result<Self> {
        subagent_failpoint::check("watch.before_begin")?;
        let inotify = Descriptor(Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK)?);
        // SAFETY: the value owns its descriptor, gives the same one every time, and closes it only when it is dropped.
        let inotify = unsafe { AsyncFd::register(inotify) }?;
        Ok(Self { inotify })
    }

    /// Watches one more file.
    ///
    /// # Errors
    /// The system's: there is no such file, for instance.
    pub(crate) fn add(&self, path: &Path) -> io::Result<()> {
        self.inotify.get_ref().0.add_watch(path, GONE)?;
        Ok(())
    }

    /// Watches the worker's own folder: also which of its files are deleted.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn add_folder(&self, path: &Path) -> io::Result<()> {
        self.inotify.get_ref().0.add_watch(path, GONE | AddWatchFlags::IN_DELETE)?;
        Ok(())
    }

    /// Watches whether one of the folders that the path lies in is moved. Those that cannot be watched are not.
    pub(crate) fn add_folders_of(&self, path: &Path) {
        for folder in path.ancestors().skip(1) {
            let _ = self.inotify.get_ref().0.add_watch(folder, AddWatchFlags::IN_MOVE_SELF);
        }
    }

    /// Waits until something changed.
    pub(crate) async fn changed(&self) {
        loop {
            let Ok(mut ready) = self.inotify.readable().await else {
                // The descriptor is ours and open; without events there is nothing to say.
                return std::future::pending().await;
            };
            let mut seen = false;
            loop {
                match self.inotify.get_ref().0.read_events() {
                    Ok(events) => seen |= !events.is_empty(),
                    Err(Errno::EINTR) => {}
                    Err(_) => break,
                }
            }
            ready.clear_ready();
            if seen {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[tokio::test(flavor = "current_thread")]
    async fn an_open_file_that_is_unlinked_is_noticed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lock");
        let _open = std::fs::File::create(&path).unwrap();
        let watch = Watch::new().unwrap();
        watch.add(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        tokio::time::timeout(Duration::from_secs(5), watch.changed()).await.unwrap();
    }

    #[tokio::test(flavor = "current_thread")]
    async fn a_file_that_is_deleted_from_the_own_folder_is_noticed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("1.journal");
        std::fs::write(&path, "").unwrap();
        let watch = Watch::new().unwrap();
        watch.add_folder(directory.path()).unwrap();
        std::fs::remove_file(&path).unwrap();
        tokio::time::timeout(Duration::from_secs(5), watch.changed()).await.unwrap();
    }
}
