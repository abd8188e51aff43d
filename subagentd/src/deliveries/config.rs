//! The sinks of the user's config file, reloaded when the file changes.

use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

use subagent_config::notify::{NotificationChannel, NotificationSink};
use subagent_config::{Environment, discovery};

/// Metadata that changes with the content of a file.
type Stamp = Option<(u64, u64, i64, i64)>;

/// The sinks and the file that defines them.
pub(super) struct ConfigFile {
    environment: Environment,
    path: Option<PathBuf>,
    stamp: Option<Stamp>,
    /// Number of file versions that were read.
    version: u64,
    sinks: Vec<NotificationSink>,
    error: Option<String>,
}

impl ConfigFile {
    /// Uses the environment in which the daemon was started. Reads no file yet.
    pub(super) fn new(environment: Environment) -> Self {
        let path = discovery::user_path(&environment);
        Self { environment, path, stamp: None, version: 0, sinks: Vec::new(), error: None }
    }

    /// Reloads the file if it changed since the last call. An invalid file leaves the sinks
    /// unchanged.
    pub(super) fn refresh(&mut self) {
        let stamp = self
            .path
            .as_ref()
            .and_then(|path| std::fs::metadata(path).ok())
            .map(|metadata| (metadata.ino(), metadata.len(), metadata.mtime(), metadata.mtime_nsec()));
        if self.stamp == Some(stamp) {
            return;
        }
        self.stamp = Some(stamp);
        self.version += 1;
        let read = match (&self.path, stamp) {
            (Some(path), Some(_)) => discovery::load_regular(Some(path), None, &self.environment)
                .map(|loaded| loaded.config.notify)
                .map_err(|error| error.message()),
            _ => Ok(Vec::new()),
        };
        match read {
            Ok(sinks) => {
                self.error = None;
                self.sinks = sinks;
            }
            Err(error) => {
                tracing::error!(%error, "the notification sinks cannot be read; the previous ones stay");
                self.error = Some(error);
            }
        }
    }

    /// Returns the number of the last version read.
    pub(super) fn version(&self) -> u64 {
        self.version
    }

    /// Returns the sinks in the order of the file.
    pub(super) fn sinks(&self) -> &[NotificationSink] {
        &self.sinks
    }

    /// Returns why the file is invalid, if it is.
    pub(super) fn error(&self) -> Option<&str> {
        self.error.as_deref()
    }

    /// Returns the path of the file, which may not exist.
    pub(super) fn path(&self) -> String {
        self.path.as_ref().map_or_else(String::new, |path| path.display().to_string())
    }

    /// Resolves the variables of a target with the daemon's environment.
    ///
    /// # Errors
    /// The reason, without the value of a variable.
    pub(super) fn resolved(&self, target: &NotificationChannel) -> Result<NotificationChannel, String> {
        resolved(&self.environment, target)
    }
}

/// Same as [`ConfigFile::resolved`], for a copy of the environment.
pub(super) fn resolved(
    environment: &Environment,
    target: &NotificationChannel,
) -> Result<NotificationChannel, String> {
    target.resolved(&|name| environment.var(name).map(|value| value.to_string_lossy().into_owned()))
}
