//! The user's config file, read again when it has changed.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use subagent_config::{Config, Environment, discovery};

/// Metadata that changes with the content of a file.
type Stamp = Option<(u64, u64, i64, i64)>;

/// The file, and the metadata of the version that was read last.
pub(crate) struct UserConfigFile {
    environment: Environment,
    path: Option<PathBuf>,
    stamp: Option<Stamp>,
}

impl UserConfigFile {
    /// Uses the environment in which the daemon was started. Reads no file yet.
    pub(crate) fn new(environment: Environment) -> Self {
        let path = discovery::user_path(&environment);
        Self { environment, path, stamp: None }
    }

    /// Whether [`Self::refresh`] would read the file.
    pub(crate) fn has_changed(&self) -> bool {
        self.stamp != Some(self.current())
    }

    /// Reads the file if it has changed since the last call. A file that does not exist has no
    /// keys. The error is a sentence.
    pub(crate) fn refresh(&mut self) -> Option<Result<Config, String>> {
        let stamp = self.current();
        if self.stamp == Some(stamp) {
            return None;
        }
        self.stamp = Some(stamp);
        Some(match (&self.path, stamp) {
            (Some(path), Some(_)) => discovery::load_regular(Some(path), None, &self.environment)
                .map(|loaded| loaded.config)
                .map_err(|error| error.message()),
            _ => Ok(Config::default()),
        })
    }

    /// Whether the version that was read last does not exist or is empty, as in the middle of a
    /// write by an editor.
    pub(crate) fn is_blank(&self) -> bool {
        self.stamp.flatten().is_none_or(|(_, length, ..)| length == 0)
    }

    /// Returns the path of the file, which may not exist.
    pub(crate) fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Returns the environment in which the daemon was started.
    pub(crate) fn environment(&self) -> &Environment {
        &self.environment
    }

    fn current(&self) -> Stamp {
        let metadata = self.path.as_ref().and_then(|path| std::fs::metadata(path).ok())?;
        Some((metadata.ino(), metadata.len(), metadata.mtime(), metadata.mtime_nsec()))
    }
}
