//! The user's config file, read again when it has changed.

use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use subagent_config::{Config, Environment, discovery};

/// Metadata that changes with the content of a file; `None` of a file that does not exist. The error
/// says why the file is unreachable.
type FileVersion = Result<Option<FileStamp>, String>;

/// The granularity of the times of a file is at most this many milliseconds.
const GRANULARITY_MS: i128 = 20;

/// An editor can restore the length and the time of change of the content, but not that of the
/// metadata.
#[derive(Debug, Clone, PartialEq, Eq)]
struct FileStamp {
    inode: u64,
    length: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl FileStamp {
    /// Whether a change after this stamp gives another one: the clock has moved on since the last.
    fn is_settled(&self) -> bool {
        let (seconds, nanos) = self.changed;
        let changed_ms = i128::from(seconds) * 1000 + i128::from(nanos) / 1_000_000;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        // The clock of a file server may be ahead.
        let age = i128::try_from(now.as_millis()).unwrap_or(i128::MAX) - changed_ms;
        !(0..GRANULARITY_MS).contains(&age)
    }
}

/// The file, and the metadata of the version that was read last.
pub(crate) struct UserConfigFile {
    environment: Environment,
    path: Option<PathBuf>,
    stamp: Option<FileVersion>,
    /// Whether the version that was read last may have changed without another stamp.
    is_recent: bool,
}

impl UserConfigFile {
    /// Uses the environment in which the daemon was started. Reads no file yet.
    pub(crate) fn new(environment: Environment) -> Self {
        let path = discovery::user_link_path(&environment);
        Self { environment, path, stamp: None, is_recent: false }
    }

    /// Whether [`Self::refresh`] would read the file.
    pub(crate) fn has_changed(&self) -> bool {
        self.is_recent || self.stamp.as_ref() != Some(&self.current())
    }

    /// Reads the file if it has changed since the last call. A file that does not exist has no
    /// keys. The error is a sentence.
    pub(crate) fn refresh(&mut self) -> Option<Result<Config, String>> {
        let stamp = self.current();
        if !self.is_recent && self.stamp.as_ref() == Some(&stamp) {
            return None;
        }
        self.is_recent = matches!(&stamp, Ok(Some(found)) if !found.is_settled());
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
        matches!(self.stamp, Some(Ok(None | Some(FileStamp { length: 0, .. }))))
    }

    /// Returns the path of the file, which may be a link and may not exist.
    pub(crate) fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Returns the environment in which the daemon was started.
    pub(crate) fn environment(&self) -> &Environment {
        &self.environment
    }

    fn current(&self) -> FileVersion {
        let Some(path) = &self.path else { return Ok(None) };
        match std::fs::metadata(path) {
            Ok(found) => Ok(Some(FileStamp {
                inode: found.ino(),
                length: found.len(),
                modified: (found.mtime(), found.mtime_nsec()),
                changed: (found.ctime(), found.ctime_nsec()),
            })),
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

    #[test]
    fn a_change_of_the_same_length_and_time_is_noticed() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join(".config/subagent/config.yaml");
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let vars = [("HOME".into(), home.path().into())];
        let mut file = UserConfigFile::new(Environment::new(vars, home.path()));
        let of = |name: &str| format!("defaults: {{launcher: {name}}}\n");
        let launcher =
            |read: Option<Result<Config, String>>| read.unwrap().unwrap().defaults.launcher.unwrap();
        // At once: the time of the file is the same.
        for name in ["one", "two"] {
            fs::write(&path, of(name)).unwrap();
            assert_eq!(launcher(file.refresh()), name);
        }
        let settled = FileStamp { changed: (0, 0), ..file.current().unwrap().unwrap() };
        assert!(settled.is_settled());
        // Later, with the time of before.
        while file.refresh().is_some() {
            std::thread::yield_now();
        }
        let modified = fs::metadata(&path).unwrap().modified().unwrap();
        fs::write(&path, of("six")).unwrap();
        fs::File::options().write(true).open(&path).unwrap().set_modified(modified).unwrap();
        assert!(file.has_changed());
        assert_eq!(launcher(file.refresh()), "six");
    }
}
