//! Watches a state dir for its creation, and for changes of `daemon.json`, with inotify. Polls if the user
//! has no inotify instance left, since workers need them too.

use std::io;
use std::os::fd::{AsFd as _, AsRawFd, RawFd};
use std::path::Path;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use tokio::io::unix::AsyncFd;
use tokio::time::{Instant, sleep_until, timeout_at};

/// Polling interval without inotify.
const PERIOD: Duration = Duration::from_millis(50);
/// Polling interval without inotify for a folder that may never be created.
const SLOW_PERIOD: Duration = Duration::from_secs(1);
/// Deadline of a wait that has none.
const FOREVER: Duration = Duration::from_secs(86_400);

/// A watch on one folder. It does not miss changes between its creation and [`StateWatch::changed`].
#[derive(Debug)]
pub(super) struct StateWatch(Option<AsyncFd<InotifyQueue>>);

#[derive(Debug)]
struct InotifyQueue(Inotify);

impl AsRawFd for InotifyQueue {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_fd().as_raw_fd()
    }
}

impl StateWatch {
    /// Starts a watch. Fails if the folder is missing.
    pub(super) fn new(folder: &Path) -> io::Result<Self> {
        let queue = match Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK) {
            Err(Errno::EMFILE | Errno::ENFILE | Errno::ENOSYS) => {
                return folder.metadata().map(|_| Self(None));
            }
            queue => queue?,
        };
        let names = AddWatchFlags::IN_CREATE
            | AddWatchFlags::IN_DELETE
            | AddWatchFlags::IN_MOVED_TO
            | AddWatchFlags::IN_MOVED_FROM
            | AddWatchFlags::IN_DELETE_SELF
            | AddWatchFlags::IN_MOVE_SELF
            | AddWatchFlags::IN_ONLYDIR;
        match queue.add_watch(folder, names) {
            Err(Errno::ENOSPC | Errno::ENOMEM) => return Ok(Self(None)),
            added => added?,
        };
        // SAFETY: the queue owns its descriptor until its end, and closes it after the AsyncFd.
        #[allow(unsafe_code)]
        let registered = unsafe { AsyncFd::register(InotifyQueue(queue)) };
        Ok(Self(Some(registered?)))
    }

    /// Waits until an entry was added or removed, or may have been. Returns false after the deadline.
    pub(super) async fn changed(&mut self, deadline: Instant) -> io::Result<bool> {
        let Some(queue) = &self.0 else {
            sleep_until(deadline.min(Instant::now() + PERIOD)).await;
            return Ok(Instant::now() < deadline);
        };
        loop {
            let Ok(ready) = timeout_at(deadline, queue.readable()).await else { return Ok(false) };
            let mut ready = ready?;
            match ready.get_inner().0.read_events() {
                Ok(_) => return Ok(true),
                Err(Errno::EAGAIN) => ready.clear_ready(),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Waits until this file exists, without a deadline. Watches the deepest folder that exists.
pub(crate) async fn created(file: &Path) {
    let deepest = || file.ancestors().skip(1).find(|parent| parent.is_dir());
    loop {
        let parent = deepest();
        let watch = parent.map(StateWatch::new);
        // Checked after the watch exists, so that no change is missed.
        if !matches!(file.try_exists(), Ok(false)) {
            return;
        }
        if deepest() != parent {
            continue;
        }
        match watch {
            Some(Ok(mut watch)) if watch.0.is_some() => {
                // The next round finds out what has changed.
                let _ = watch.changed(Instant::now() + FOREVER).await;
            }
            _ => sleep_until(Instant::now() + SLOW_PERIOD).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn a_new_name_is_noticed_and_nothing_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let mut watch = StateWatch::new(dir.path()).unwrap();
        assert!(!watch.changed(Instant::now() + Duration::from_millis(20)).await.unwrap());
        std::fs::write(dir.path().join("daemon.json"), "{}").unwrap();
        assert!(watch.changed(Instant::now() + Duration::from_secs(30)).await.unwrap());
    }

    #[tokio::test]
    async fn without_inotify_it_is_looked_until_the_deadline() {
        let mut watch = StateWatch(None);
        assert!(watch.changed(Instant::now() + Duration::from_secs(30)).await.unwrap());
        assert!(!watch.changed(Instant::now() + Duration::from_millis(1)).await.unwrap());
    }

    #[tokio::test]
    async fn a_missing_folder_cannot_be_watched() {
        assert!(StateWatch::new(Path::new("/nonexistent")).is_err());
    }

    #[tokio::test]
    async fn a_folder_is_noticed_when_its_missing_parents_are_created_too() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("a/b/state");
        let mut waiting = std::pin::pin!(created(&folder));
        let soon = Duration::from_millis(20);
        assert!(tokio::time::timeout(soon, waiting.as_mut()).await.is_err());
        std::fs::create_dir(dir.path().join("a")).unwrap();
        assert!(tokio::time::timeout(soon, waiting.as_mut()).await.is_err(), "its parent is not it");
        std::fs::create_dir_all(&folder).unwrap();
        tokio::time::timeout(Duration::from_secs(30), waiting).await.expect("the folder is noticed");
        tokio::time::timeout(soon, created(dir.path())).await.expect("it exists already");
    }
}
