//! The sinks of the user's config file, read again when the file changes.

use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

use subagent_config::notify::{Sink, Target};
use subagent_config::{Environment, discovery};

/// What tells one state of a file from the next.
type Stamp = Option<(u64, u64, i64, i64)>;

/// The sinks, and the file that they are from.
pub(super) struct ConfigFile {
    environment: Environment,
    path: Option<PathBuf>,
    stamp: Option<Stamp>,
    /// Counts the states of the file that were read.
    version: u64,
    sinks: Vec<Sink>,
    error: Option<String>,
}

impl ConfigFile {
    /// Of the daemon that was started in this environment. Nothing is read yet.
    pub(super) fn new(environment: Environment) -> Self {
        let path = discovery::user_path(&environment);
        Self { environment, path, stamp: None, version: 0, sinks: Vec::new(), error: None }
    }

    /// Reads the file if it has changed since the last call. A file that cannot be used changes no sink.
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
                tracing::error!(%error, "the sinks of notifications cannot be read; those from before stay");
                self.error = Some(error);
            }
        }
    }

    /// The number of the state that was read last.
    pub(super) fn version(&self) -> u64 {
        self.version
    }

    /// The sinks, in the order of the file.
    pub(super) fn sinks(&self) -> &[Sink] {
        &self.sinks
    }

    /// Why the file cannot be used.
    pub(super) fn error(&self) -> Option<&str> {
        self.error.as_deref()
    }

    /// The file, whether it exists or not.
    pub(super) fn path(&self) -> String {
        self.path.as_ref().map_or_else(String::new, |path| path.display().to_string())
    }

    /// A target with the variables of the daemon's environment in it.
    ///
    /// # Errors
    /// Why it cannot be used, without a value.
    pub(super) fn resolved(&self, target: &Target) -> Result<Target, String> {
        resolved(&self.environment, target)
    }
}

/// The same for a copy of the environment.
pub(super) fn resolved(environment: &Environment, target: &Target) -> Result<Target, String> {
    target.resolved(&|name| environment.var(name).map(|value| value.to_string_lossy().into_owned()))
}
