//! Notices without polling that our files were removed: the worker's directory, its lock, the
//! command socket, and journal segments, which the daemon deletes after reading.

// Only reports that something changed. Watches the files themselves. Of folders shared by many
// workers it watches only moves, so that another worker's files cause no wakeup.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::path::Path;

use nix::errno::Errno;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use tokio::io::unix::AsyncFd;

/// Unlinking an open file changes its attributes (the link count).
const GONE: AddWatchFlags = AddWatchFlags::IN_ATTRIB
    .union(AddWatchFlags::IN_MOVE_SELF)
    .union(AddWatchFlags::IN_DELETE_SELF)
    .union(AddWatchFlags::IN_DONT_FOLLOW);

pub(crate) struct FileWatch {
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

impl FileWatch {
    /// Creates a watch without files.
    ///
    /// # Errors
    ///
    /// The system's error. All programs of a user share `fs.inotify.max_user_instances`, often 128.
    #[allow(unsafe_code)]
    pub(crate) fn new() -> io::Result<Self> {
        subagent_failpoint::check("watch.before_begin")?;
        let inotify = Descriptor(Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK)?);
        // SAFETY: the value owns its descriptor, always returns the same one, and closes it only on
        // drop.
        let inotify = unsafe { AsyncFd::register(inotify) }?;
        Ok(Self { inotify })
    }

    /// Watches one more file.
    ///
    /// # Errors
    ///
    /// The system's error, for example if the file does not exist.
    pub(crate) fn add(&self, path: &Path) -> io::Result<()> {
        self.inotify.get_ref().0.add_watch(path, GONE)?;
        Ok(())
    }

    /// Watches the worker's own folder, including deletions of its files.
    ///
    /// # Errors
    ///
    /// The system's error of adding the watch.
    pub(crate) fn add_folder(&self, path: &Path) -> io::Result<()> {
        self.inotify.get_ref().0.add_watch(path, GONE | AddWatchFlags::IN_DELETE)?;
        Ok(())
    }

    /// Watches for moves of the folders that contain the path. Skips folders
    /// that cannot be watched.
    pub(crate) fn add_folders_of(&self, path: &Path) {
        for folder in path.ancestors().skip(1) {
            let _ = self.inotify.get_ref().0.add_watch(folder, AddWatchFlags::IN_MOVE_SELF);
        }
    }

    /// Waits until something has changed.
    pub(crate) async fn changed(&self) {
        loop {
            let Ok(mut ready) = self.inotify.readable().await else {
                // The descriptor is ours and open; without events there is nothing to report.
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
        let watch = FileWatch::new().unwrap();
        watch.add(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        tokio::time::timeout(Duration::from_secs(5), watch.changed()).await.unwrap();
    }

    #[tokio::test(flavor = "current_thread")]
    async fn a_file_that_is_deleted_from_the_own_folder_is_noticed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("1.journal");
        std::fs::write(&path, "").unwrap();
        let watch = FileWatch::new().unwrap();
        watch.add_folder(directory.path()).unwrap();
        std::fs::remove_file(&path).unwrap();
        tokio::time::timeout(Duration::from_secs(5), watch.changed()).await.unwrap();
    }
}
