//! Notices without polling that our files went away: the worker's directory, its lock, the command socket, and segments of
//! the journal, which the daemon deletes when it has taken them.
//!
//! Must not judge: it only says "look again". The files themselves are watched; of the folders that many
//! workers share only that they are moved, so that nobody is woken for somebody else's file.
//!
//! A user has few of what this needs (`fs.inotify.max_user_instances`, 128 on most systems, for all programs together). A
//! worker beyond them works all the same: it looks now and then.

use std::cell::Cell;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::path::Path;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use tokio::io::unix::AsyncFd;
use tokio::time::{Instant, sleep_until};

/// How long a lost file may go unnoticed by one that is not told.
const PERIOD: Duration = Duration::from_secs(60);

/// Unlinking changes the attributes (the number of links) of a file that is still open.
const GONE: AddWatchFlags = AddWatchFlags::IN_ATTRIB
    .union(AddWatchFlags::IN_MOVE_SELF)
    .union(AddWatchFlags::IN_DELETE_SELF)
    .union(AddWatchFlags::IN_DONT_FOLLOW);

/// The watch.
pub(crate) struct Watch {
    /// Nothing if there is none left for this user.
    inotify: Option<AsyncFd<Descriptor>>,
    /// When to look without being told, if not all is watched.
    look_at: Cell<Option<Instant>>,
    period: Duration,
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
    /// The system's, but for those that say that there are too many of this user.
    #[allow(unsafe_code)]
    pub(crate) fn new() -> io::Result<Self> {
        let inotify = match Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK) {
            // SAFETY: the value owns its descriptor, gives the same one every time, and closes it only when it is dropped.
            Ok(inotify) => Some(unsafe { AsyncFd::register(Descriptor(inotify)) }?),
            Err(Errno::EMFILE | Errno::ENFILE | Errno::ENOSYS) => None,
            Err(error) => return Err(error.into()),
        };
        let watch = Self { inotify, look_at: Cell::new(None), period: PERIOD };
        if watch.inotify.is_none() {
            watch.look_later();
        }
        Ok(watch)
    }

    fn look_later(&self) {
        self.look_at.set(Some(Instant::now() + self.period));
    }

    /// Watches one more file.
    ///
    /// # Errors
    /// The system's: there is no such file, for instance.
    pub(crate) fn add(&self, path: &Path) -> io::Result<()> {
        self.add_for(path, GONE)
    }

    /// Watches the worker's own folder: also which of its files are deleted.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn add_folder(&self, path: &Path) -> io::Result<()> {
        self.add_for(path, GONE | AddWatchFlags::IN_DELETE)
    }

    fn add_for(&self, path: &Path, what: AddWatchFlags) -> io::Result<()> {
        let Some(inotify) = &self.inotify else { return Ok(()) };
        match inotify.get_ref().0.add_watch(path, what) {
            Ok(_) => Ok(()),
            // The user's watches are used up.
            Err(Errno::ENOSPC) => {
                self.look_later();
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Watches whether one of the folders that the path lies in is moved. Those that cannot be watched are not.
    pub(crate) fn add_folders_of(&self, path: &Path) {
        let Some(inotify) = &self.inotify else { return };
        for folder in path.ancestors().skip(1) {
            let _ = inotify.get_ref().0.add_watch(folder, AddWatchFlags::IN_MOVE_SELF);
        }
    }

    /// Waits until something changed, or may have.
    pub(crate) async fn changed(&self) {
        tokio::select! {
            () = self.told() => {}
            () = self.due() => self.look_later(),
        }
    }

    /// Until it is time to look; for ever if all is watched.
    async fn due(&self) {
        match self.look_at.get() {
            Some(moment) => sleep_until(moment).await,
            None => std::future::pending().await,
        }
    }

    async fn told(&self) {
        let Some(inotify) = &self.inotify else { return std::future::pending().await };
        loop {
            let Ok(mut ready) = inotify.readable().await else {
                // The descriptor is ours and open; without events there is nothing to say.
                return std::future::pending().await;
            };
            let mut seen = false;
            loop {
                match inotify.get_ref().0.read_events() {
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

    #[tokio::test(flavor = "current_thread")]
    async fn without_inotify_it_is_time_to_look_now_and_then_however_often_the_wait_is_begun_anew() {
        let watch = Watch { inotify: None, look_at: Cell::new(None), period: Duration::from_millis(20) };
        watch.look_later();
        watch.add(Path::new("/nonexistent")).unwrap();
        for _ in 0..2 {
            tokio::time::timeout(Duration::from_secs(5), async {
                while tokio::time::timeout(Duration::from_millis(1), watch.changed()).await.is_err() {}
            })
            .await
            .unwrap();
        }
    }
}
