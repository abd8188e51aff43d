//! Waits for another git: for its lock files, and for the worktree that it is adding.

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

/// Returns the file of another worktree that git found unwritten: `git worktree add` creates it
/// empty, and every git that lists worktrees reads it.
pub(super) fn unwritten_in(stderr: &str) -> Option<PathBuf> {
    let (_, rest) = stderr.split_once("failed to read ")?;
    let (path, rest) = rest.split_once(": ")?;
    (path.ends_with("/commondir") && rest.starts_with("Success")).then(|| PathBuf::from(path))
}

/// Waits until a file is gone. Returns false if it still exists at the deadline.
pub(super) fn until_gone(path: &Path, until: Instant) -> bool {
    until_true(path, until, || path.symlink_metadata().is_err())
}

/// Waits until a file has content or is gone. Returns false if it is still empty at the deadline.
pub(super) fn until_written(path: &Path, until: Instant) -> bool {
    until_true(path, until, || !path.symlink_metadata().is_ok_and(|file| file.len() == 0))
}

/// Checks a condition at each change in the file's folder.
fn until_true(path: &Path, until: Instant, is_true: impl Fn() -> bool) -> bool {
    let Ok(inotify) = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK) else {
        return is_true();
    };
    let change = AddWatchFlags::IN_DELETE | AddWatchFlags::IN_MOVED_FROM | AddWatchFlags::IN_CLOSE_WRITE;
    let _ = path.parent().map(|folder| inotify.add_watch(folder, change));
    loop {
        if is_true() {
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

    #[test]
    fn the_unwritten_file_is_found_in_the_error_of_git() {
        let empty = "fatal: failed to read .git/worktrees/fast-37/commondir: Success";
        assert_eq!(unwritten_in(empty), Some(".git/worktrees/fast-37/commondir".into()));
        assert_eq!(unwritten_in("fatal: failed to read .git/worktrees/x/commondir: Permission denied"), None);
    }
}
