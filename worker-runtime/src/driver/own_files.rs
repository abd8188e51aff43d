//! The files of this runtime, which end it or are made again when they are removed.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use subagent_protocol::start::RuntimeStart;

use crate::socket::Endpoint;
use crate::startup;
use crate::watch::FileWatch;

/// Delay before the command socket is bound again after a failure.
const FIRST_REBIND: Duration = Duration::from_secs(1);
const LAST_REBIND: Duration = Duration::from_secs(60);
/// Delay of the first check of our files, and of the first retry of the watch, without
/// notifications. Doubles each time.
const FIRST_LOOK: Duration = Duration::from_secs(1);
const LAST_LOOK: Duration = Duration::from_secs(60);

pub(super) struct OwnFiles {
    directory: PathBuf,
    socket_path: PathBuf,
    lock: File,
    /// `None` while the system has no watch for us. The files are then checked periodically.
    pub(super) watch: Option<FileWatch>,
    look_after: Duration,
    pub(super) endpoint: Option<Endpoint>,
    rebind_after: Duration,
}

impl OwnFiles {
    /// Binds the command socket.
    ///
    /// # Errors
    /// Those of the system.
    pub(super) fn bind(start: &RuntimeStart, lock: File) -> io::Result<Self> {
        Ok(Self {
            endpoint: Some(Endpoint::bind(&start.socket)?),
            directory: start.directory.clone(),
            socket_path: start.socket.clone(),
            lock,
            watch: None,
            look_after: FIRST_LOOK,
            rebind_after: FIRST_REBIND,
        })
    }

    /// Starts watching. Returns the error if it is the first one, and the time of the next attempt.
    pub(super) fn watch(&mut self) -> Option<(Option<io::Error>, Duration)> {
        match self.begin_watch() {
            Ok(watch) => {
                self.watch = Some(watch);
                self.look_after = FIRST_LOOK;
                None
            }
            Err(error) => {
                self.watch = None;
                let after = self.look_after;
                self.look_after = (after * 2).min(LAST_LOOK);
                Some((Some(error).filter(|_| after == FIRST_LOOK), after))
            }
        }
    }

    fn begin_watch(&self) -> io::Result<FileWatch> {
        let watch = FileWatch::new()?;
        watch.add_folder(&self.directory)?;
        for path in [&startup::lock_path(&self.directory), &self.socket_path] {
            watch.add(path)?;
        }
        watch.add_folders_of(&self.directory);
        Ok(watch)
    }

    /// Returns the path of the lock if it is no longer there.
    pub(super) fn lost_lock(&self) -> Option<PathBuf> {
        let path = startup::lock_path(&self.directory);
        (!startup::is_same_file(&self.lock, &path)).then_some(path)
    }

    /// Returns whether the command socket was removed.
    pub(super) fn has_lost_socket(&self) -> bool {
        self.endpoint.as_ref().is_some_and(|endpoint| !endpoint.is_there())
    }

    /// Binds the command socket again. Returns whether the watch has to begin again.
    ///
    /// # Errors
    /// The error, and the time of the next attempt.
    pub(super) fn rebind(&mut self) -> Result<bool, (io::Error, Duration)> {
        match Endpoint::bind(&self.socket_path) {
            Ok(endpoint) => {
                self.endpoint = Some(endpoint);
                self.rebind_after = FIRST_REBIND;
                Ok(self.watch.as_ref().is_some_and(|watch| watch.add(&self.socket_path).is_err()))
            }
            Err(error) => {
                let after = self.rebind_after;
                self.rebind_after = (after * 2).min(LAST_REBIND);
                Err((error, after))
            }
        }
    }
}
