//! Takes file locks with a deadline. The lock call blocks, so a contended lock needs its own
//! thread. After the deadline that thread remains; it releases the lock as soon as it gets it, and
//! ends with the process.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use nix::libc::O_NOFOLLOW;
use subagent_config::regular;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

/// Takes the exclusive lock on this file and creates the file if it is missing. Returns `None` after the
/// deadline.
pub(in crate::client) async fn exclusive(path: &Path, deadline: Instant) -> io::Result<Option<File>> {
    subagent_failpoint::check("start_lock.before_take")?;
    let mut options = OpenOptions::new();
    let file = regular::open(path, options.write(true).create(true).truncate(false).mode(0o600), O_NOFOLLOW)?;
    match file.try_lock() {
        Err(_) if subagent_failpoint::sabotaged("daemon.no_lock") => return Ok(Some(file)),
        Ok(()) => return Ok(Some(file)),
        Err(TryLockError::WouldBlock) => {}
        Err(TryLockError::Error(error)) => return Err(error),
    }
    on_thread(deadline, move || file.lock().map(|()| file)).await
}

/// Waits until no process holds the exclusive lock on this file. Returns false after the deadline.
///
/// It takes the lock shared for a moment, so that several waiters do not see each other.
///
/// # Errors
/// The error of the system; a missing file counts as unlocked.
pub(in crate::client) async fn released(path: &Path, deadline: Instant) -> io::Result<bool> {
    let file = match regular::open_to_read(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
        Err(error) => return Err(error),
    };
    Ok(on_thread(deadline, move || file.lock_shared()).await?.is_some())
}

/// Runs a blocking call on its own thread. Returns `None` after the deadline; a later result is dropped.
pub(in crate::client) async fn on_thread<T: Send + 'static>(
    deadline: Instant,
    call: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<Option<T>> {
    let (sender, receiver) = oneshot::channel();
    std::thread::Builder::new().name("blocking call".to_owned()).spawn(move || {
        // Without a receiver, the result is returned here and dropped.
        let _ = sender.send(call());
    })?;
    match timeout_at(deadline, receiver).await {
        Ok(Ok(result)) => result.map(Some),
        Ok(Err(_)) => Err(io::Error::other("the thread of a blocking call ended without a result")),
        Err(_) => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn soon() -> Instant {
        Instant::now() + Duration::from_millis(50)
    }

    #[tokio::test]
    async fn a_held_lock_is_waited_for_until_the_deadline() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let held = exclusive(&path, soon()).await.unwrap().unwrap();
        assert!(exclusive(&path, soon()).await.unwrap().is_none());
        assert!(!released(&path, soon()).await.unwrap());
        let far = Instant::now() + Duration::from_secs(30);
        let (waited, ()) = tokio::join!(exclusive(&path, far), async { drop(held) });
        assert!(waited.unwrap().is_some());
    }

    #[tokio::test]
    async fn a_missing_lock_has_no_holder() {
        let dir = tempfile::tempdir().unwrap();
        assert!(released(&dir.path().join("none"), soon()).await.unwrap());
    }
}
