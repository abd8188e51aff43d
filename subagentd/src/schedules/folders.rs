//! Looks at folders, each with a deadline: a dead network file system must not hold up anything
//! else. A folder whose look has not returned is not looked at again, so that few threads hang.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use subagent_protocol::{Code, Error, Result};
use tokio::sync::Notify;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::{Instant, timeout_at};

/// Maximum time of a look.
const LOOK_WITHIN: Duration = Duration::from_secs(2);

/// The folders of schedules and triggers. Cheap to clone.
#[derive(Clone, Default)]
pub(super) struct Folders {
    hanging: Arc<Mutex<HashSet<PathBuf>>>,
    returned: Arc<Notify>,
}

/// A look that has begun.
pub(super) struct FolderLook<T> {
    folders: Folders,
    folder: PathBuf,
    /// `None` while an earlier look hangs.
    running: Option<JoinHandle<T>>,
}

impl Folders {
    /// The time until which looks that begin now are waited for.
    pub(super) fn deadline() -> Instant {
        Instant::now() + LOOK_WITHIN
    }

    /// Begins a look at this folder.
    pub(super) fn begin<T: Send + 'static>(
        &self,
        folder: &Path,
        look: impl FnOnce() -> T + Send + 'static,
    ) -> FolderLook<T> {
        let running = (!self.is_hanging(folder)).then(|| {
            spawn_blocking(move || {
                subagent_failpoint::hit("folder.before_look");
                look()
            })
        });
        FolderLook { folders: self.clone(), folder: folder.to_owned(), running }
    }

    /// Looks at this folder.
    ///
    /// # Errors
    /// `TIMED_OUT{folder}`.
    pub(super) async fn look<T: Send + 'static>(
        &self,
        folder: &Path,
        look: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T> {
        self.begin(folder, look).until(Self::deadline()).await
    }

    /// Waits until a look that was late returns.
    pub(super) async fn returned(&self) {
        self.returned.notified().await;
    }

    /// Whether a look at this folder was late and has not returned.
    pub(super) fn is_hanging(&self, folder: &Path) -> bool {
        self.hanging().contains(folder)
    }

    fn hanging(&self) -> MutexGuard<'_, HashSet<PathBuf>> {
        self.hanging.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Send + 'static> FolderLook<T> {
    /// Waits for the result.
    ///
    /// # Errors
    /// `TIMED_OUT{folder}`.
    pub(super) async fn until(self, deadline: Instant) -> Result<T> {
        let Self { folders, folder, running } = self;
        let late = not_available(&folder);
        let Some(mut running) = running else { return Err(late) };
        if let Ok(found) = timeout_at(deadline, &mut running).await {
            return found.map_err(|error| Error::new(Code::Internal, error.to_string()));
        }
        folders.hanging().insert(folder.clone());
        tokio::spawn(async move {
            let _ = running.await;
            folders.hanging().remove(&folder);
            folders.returned.notify_one();
        });
        Err(late)
    }
}

/// Waits for work that reads files below this folder.
///
/// # Errors
/// `TIMED_OUT{folder}`, and those of the work.
pub(super) async fn answered<T>(folder: &Path, work: impl Future<Output = Result<T>>) -> Result<T> {
    timeout_at(Folders::deadline(), work).await.unwrap_or_else(|_| Err(not_available(folder)))
}

/// The error for a folder that does not answer.
pub(super) fn not_available(folder: &Path) -> Error {
    let seconds = LOOK_WITHIN.as_secs();
    let message = format!("the folder {} did not answer within {seconds} s", folder.display());
    Error::new(Code::TimedOut, message)
        .with("folder", folder.display().to_string())
        .recommend("check its file system; the daemon goes on when the folder answers")
}

/// Whether this is the error for a folder that does not answer.
pub(super) fn is_not_available(error: &Error) -> bool {
    error.code == Code::TimedOut && error.details.contains_key("folder")
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn a_folder_that_hangs_holds_up_no_other_and_only_one_thread() {
        let folders = Folders::default();
        let (dead, alive) = (Path::new("/net/dead"), Path::new("/home"));
        let (release, released) = mpsc::channel::<()>();
        let hung = folders.begin(dead, move || released.recv());
        assert_eq!(folders.look(alive, || 7).await.unwrap(), 7);
        let error = hung.until(Folders::deadline()).await.unwrap_err();
        assert!(is_not_available(&error) && error.message.contains("/net/dead"), "{error}");
        let again = folders.look(dead, || panic!("a second thread")).await;
        assert!(is_not_available(&again.unwrap_err()));
        assert_eq!(folders.look(alive, || 7).await.unwrap(), 7);
        release.send(()).unwrap();
        folders.returned().await;
        assert_eq!(folders.look(dead, || 7).await.unwrap(), 7);
    }
}
