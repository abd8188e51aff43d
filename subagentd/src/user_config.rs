//! The user's config file, read again when it has changed.

use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use subagent_config::{Config, Environment, discovery};

/// Metadata that changes with the content of a file; `None` of a file that does not exist. The error
/// says why the file is unreachable.
type Stamp = Result<Option<(u64, u64, i64, i64)>, String>;

/// The file, and the metadata of the version that was read last.
pub(crate) struct UserConfigFile {
    environment: Environment,
    path: Option<PathBuf>,
    stamp: Option<Stamp>,
}

impl UserConfigFile {
    /// Uses the environment in which the daemon was started. Reads no file yet.
    pub(crate) fn new(environment: Environment) -> Self {
        let path = discovery::user_link_path(&environment);
        Self { environment, path, stamp: None }
    }

    /// Whether [`Self::refresh`] would read the file.
    pub(crate) fn has_changed(&self) -> bool {
        self.stamp.as_ref() != Some(&self.current())
    }

    /// Reads the file if it has changed since the last call. A file that does not exist has no
    /// keys. The error is a sentence.
    pub(crate) fn refresh(&mut self) -> Option<Result<Config, String>> {
        let stamp = self.current();
        if self.stamp.as_ref() == Some(&stamp) {
            return None;
        }
        self.stamp = Some(stamp.clone());
        Some(match (&self.path, stamp) {
            (_, Err(problem)) => Err(problem),
            (Some(path), Ok(Some(_))) => discovery::load_regular(Some(path), None, &self.environment)
                .map(|loaded| loaded.config)
                .map_err(|error| error.message()),
            _ => Ok(Config::default()),
        })
    }

    /// Whether the version that was read last does not exist or is empty, as in the middle of a
    /// write by an editor.
    pub(crate) fn is_blank(&self) -> bool {
        matches!(self.stamp, Some(Ok(None | Some((_, 0, ..)))))
    }

    /// Returns the path of the file, which may be a link and may not exist.
    pub(crate) fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Returns the environment in which the daemon was started.
    pub(crate) fn environment(&self) -> &Environment {
        &self.environment
    }

    fn current(&self) -> Stamp {
        let Some(path) = &self.path else { return Ok(None) };
        match std::fs::metadata(path) {
            Ok(found) => Ok(Some((found.ino(), found.len(), found.mtime(), found.mtime_nsec()))),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(format!("{} is unreachable: {error}", path.display())),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn an_unreachable_file_is_an_error_and_a_missing_one_has_no_keys() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join(".config/subagent");
        fs::create_dir_all(&folder).unwrap();
        let vars = [("HOME".into(), home.path().into())];
        let mut file = UserConfigFile::new(Environment::new(vars, home.path()));
        assert_eq!(file.refresh().unwrap().unwrap(), Config::default());
        assert!(file.is_blank() && file.refresh().is_none());
        let path = folder.join("config.yaml");
        symlink(&path, &path).unwrap();
        let error = file.refresh().unwrap().unwrap_err();
        assert!(error.contains("config.yaml is unreachable"), "{error}");
        assert!(!file.is_blank() && !file.has_changed());
        fs::remove_file(&path).unwrap();
        assert!(file.has_changed() && file.refresh().unwrap().is_ok() && file.is_blank());
    }
}
