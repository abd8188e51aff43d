//! The sinks of the user's config file, reloaded when the file changes.

use std::path::Path;

use subagent_config::Environment;
use subagent_config::notify::{NotificationChannel, NotificationSink};

use crate::user_config::UserConfigFile;

/// The sinks and the file that defines them.
pub(super) struct SinkFile {
    file: UserConfigFile,
    /// Number of file versions that were read.
    version: u64,
    sinks: Vec<NotificationSink>,
    error: Option<String>,
}

impl SinkFile {
    /// Uses the environment in which the daemon was started. Reads no file yet.
    pub(super) fn new(environment: Environment) -> Self {
        Self { file: UserConfigFile::new(environment), version: 0, sinks: Vec::new(), error: None }
    }

    /// Reloads the file if it changed since the last call. An invalid file leaves the sinks
    /// unchanged.
    pub(super) fn refresh(&mut self) {
        let Some(read) = self.file.refresh() else { return };
        self.version += 1;
        match read {
            Ok(config) => {
                self.error = None;
                self.sinks = config.notify;
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
        self.file.path().map(Path::display).map_or_else(String::new, |path| path.to_string())
    }

    /// Resolves the variables of a target with the daemon's environment.
    ///
    /// # Errors
    /// The reason, without the value of a variable.
    pub(super) fn resolved(&self, target: &NotificationChannel) -> Result<NotificationChannel, String> {
        resolved(self.file.environment(), target)
    }
}

/// Same as [`SinkFile::resolved`], for a copy of the environment.
pub(super) fn resolved(
    environment: &Environment,
    target: &NotificationChannel,
) -> Result<NotificationChannel, String> {
    target.resolved(&|name| environment.var(name).map(|value| value.to_string_lossy().into_owned()))
}
