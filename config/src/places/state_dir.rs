//! Prepares the state dir: it exists, is private and writable, and is on a file system with reliable locks.
//! The daemon manages the content.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use crate::error::ConfigError;
use crate::file_system;
use crate::markers::{DOT_SUBAGENT, STATE};
use crate::write::{self, Replace};

/// Prefix of the name of a database that a restore replaced; the time of the restore follows.
pub const REPLACED_DATABASE: &str = "state.db.replaced-";
/// Prefix of the name of a folder with runtimes that a restored database does not know; the time follows.
pub const REPLACED_RUNTIMES: &str = "runtimes.replaced-";
/// Prefix of the name of a database that is being prepared. After a killed restore it may be a replaced
/// one.
pub const RESTORING_DATABASE: &str = "state.db.restoring";

/// Creates and checks the state dir, an absolute path without symbolic links. Idempotent.
pub fn prepare(state_dir: &Path) -> Result<(), ConfigError> {
    let unwritable = |cause| ConfigError::StateDirUnwritable { state_dir: state_dir.to_owned(), cause };
    // The check precedes the creation, so that a refusal leaves no files behind.
    check_file_system(state_dir)?;
    let created = create(state_dir).map_err(unwritable)?;
    // A real write, because permission bits do not show a read-only mount. The file is unnamed and
    // disappears.
    tempfile::tempfile_in(state_dir).map_err(unwritable)?;
    if created || is_ours(state_dir) {
        ignore_in_git(state_dir).map_err(unwritable)?;
    }
    Ok(())
}

/// Refuses an unsuitable file system. Only reads; the folder may not exist.
pub fn check_file_system(state_dir: &Path) -> Result<(), ConfigError> {
    let existing = state_dir.ancestors().find(|folder| folder.exists());
    match existing.and_then(file_system::unsupported) {
        None => Ok(()),
        Some(file_system) => {
            Err(ConfigError::StateDirUnsupportedFs { state_dir: state_dir.to_owned(), file_system })
        }
    }
}

/// Creates the folder and returns whether it is new. Parents get default permissions, because `.subagent`
/// also holds the config file.
fn create(state_dir: &Path) -> io::Result<bool> {
    if let Some(parent) = state_dir.parent() {
        std::fs::create_dir_all(parent)?;
    }
    match DirBuilder::new().mode(0o700).create(state_dir) {
        Ok(()) => Ok(true),
        Err(cause) if cause.kind() != io::ErrorKind::AlreadyExists => Err(cause),
        Err(_) if state_dir.is_dir() => Ok(false),
        Err(_) => Err(io::ErrorKind::NotADirectory.into()),
    }
}

/// Whether the folder is at the default path or empty. Another folder of `SUBAGENT_STATE_DIR` may contain
/// files of the user, which git should track.
fn is_ours(state_dir: &Path) -> bool {
    state_dir.ends_with(Path::new(DOT_SUBAGENT).join(STATE))
        || std::fs::read_dir(state_dir).is_ok_and(|mut entries| entries.next().is_none())
}

/// Makes git ignore the folder, unless it has a `.gitignore`.
///
/// # Errors
/// The file cannot be written.
pub fn ignore_in_git(state_dir: &Path) -> io::Result<()> {
    let path = state_dir.join(".gitignore");
    if path.symlink_metadata().is_ok() {
        return Ok(());
    }
    match write::atomically(&path, b"*\n", 0o600, Replace::No) {
        Err(cause) if cause.kind() != io::ErrorKind::AlreadyExists => Err(cause),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn it_is_made_private_and_ignored_with_its_parents() {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("ws/.subagent/state");
        for _ in 0..2 {
            prepare(&state).unwrap();
            assert_eq!(fs::metadata(&state).unwrap().permissions().mode() & 0o777, 0o700);
            assert_eq!(fs::read_to_string(state.join(".gitignore")).unwrap(), "*\n");
            assert_eq!(fs::read_dir(&state).unwrap().count(), 1);
        }
    }

    #[test]
    fn a_gitignore_of_the_users_own_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join(".subagent/state");
        fs::create_dir_all(&state).unwrap();
        fs::write(state.join(".gitignore"), "mine").unwrap();
        prepare(&state).unwrap();
        assert_eq!(fs::read_to_string(state.join(".gitignore")).unwrap(), "mine");
    }

    #[test]
    fn a_folder_with_a_users_files_is_not_hidden_from_git() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("thesis.tex"), "").unwrap();
        prepare(dir.path()).unwrap();
        assert!(!dir.path().join(".gitignore").exists());
    }

    #[track_caller]
    fn unwritable(state: &Path) {
        let error = prepare(state).unwrap_err();
        assert_eq!(error.code(), "STATE_DIR_UNWRITABLE");
        assert_eq!(error.details()["stateDir"], state.to_str().unwrap());
        assert!(error.details().contains_key("error"));
        assert!(error.message().contains("SUBAGENT_STATE_DIR"), "{error}");
    }

    #[test]
    fn a_file_in_the_way_is_reported() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("file"), "").unwrap();
        unwritable(&dir.path().join("file"));
        unwritable(&dir.path().join("file/state"));
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_reported() {
        // Even root cannot create files in /proc/self.
        unwritable(Path::new("/proc/self/subagent-state"));
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), Permissions::from_mode(0o500)).unwrap();
        // Permission bits do not limit root.
        if !nix::unistd::geteuid().is_root() {
            unwritable(dir.path());
        }
        fs::set_permissions(dir.path(), Permissions::from_mode(0o700)).unwrap();
    }
}
