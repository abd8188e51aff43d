//! Waits for another git's lock files.

use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};

/// Maximum time between two checks: a network file system reports no changes by other machines.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Returns the lock file that git could not create because it exists.
pub(super) fn lock_in(stderr: &str) -> Option<PathBuf> {
    let (_, rest) = stderr.split_once("Unable to create '")?;
    let (path, rest) = rest.split_once("': ")?;
    (path.ends_with(".lock") && rest.starts_with("File exists")).then(|| PathBuf::from(path))
}

/// Waits until a file is gone. Returns false if it still exists at the deadline.
pub(super) fn until_gone(path: &Path, until: Instant) -> bool {
    let Ok(inotify) = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK) else {
        return path.symlink_metadata().is_err();
    };
    let gone = AddWatchFlags::IN_DELETE | AddWatchFlags::IN_MOVED_FROM;
    let _ = path.parent().map(|folder| inotify.add_watch(folder, gone));
    loop {
        if path.symlink_metadata().is_err() {
            return true;
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return false;
        }
        let wait = PollTimeout::try_from(left.min(LOOK_AGAIN)).unwrap_or(PollTimeout::MAX);
        let _ = poll(&mut [PollFd::new(inotify.as_fd(), PollFlags::POLLIN)], wait);
        let _ = inotify.read_events();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lock_is_found_in_the_error_of_git() {
        let index = "fatal: Unable to create '/r/.git/index.lock': File exists.\n\nAnother git process";
        assert_eq!(lock_in(index), Some("/r/.git/index.lock".into()));
        let of_ref = "fatal: update_ref failed for ref 'refs/heads/x': cannot lock ref 'refs/heads/x': \
                      Unable to create '/r/.git/refs/heads/x.lock': File exists.";
        assert_eq!(lock_in(of_ref), Some("/r/.git/refs/heads/x.lock".into()));
        assert_eq!(lock_in("fatal: Unable to create '/r/x.lock': Permission denied"), None);
    }
}
