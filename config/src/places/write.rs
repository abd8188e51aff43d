//! Writes files atomically: readers see the old or the new content, even after a power failure.

use std::fs::{File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// The action for an existing file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replace {
    /// Replaces the existing file.
    Yes,
    /// Fail with `AlreadyExists`; keep the file.
    No,
}

/// Writes `content` to `path`, whose folder exists. The process's umask reduces `mode`.
///
/// # Errors
/// The file cannot be written, or exists already.
pub fn atomically(path: &Path, content: &[u8], mode: u32, replace: Replace) -> io::Result<()> {
    let folder = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    let mut file = tempfile::Builder::new()
        .prefix(".subagent-new-")
        .permissions(Permissions::from_mode(mode))
        .tempfile_in(folder)?;
    file.write_all(content)?;
    file.as_file().sync_all()?;
    let placed = match replace {
        Replace::Yes => file.persist(path),
        Replace::No => file.persist_noclobber(path),
    };
    placed.map_err(|error| error.error)?;
    // The new name is durable only after a sync of its folder.
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn replaces_or_refuses_and_leaves_nothing_beside() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        atomically(&path, b"one", 0o600, Replace::No).unwrap();
        let error = atomically(&path, b"two", 0o600, Replace::No).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&path).unwrap(), b"one");
        atomically(&path, b"three", 0o600, Replace::Yes).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"three");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_folder_is_not_replaced() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("f")).unwrap();
        atomically(&dir.path().join("f"), b"x", 0o600, Replace::Yes).unwrap_err();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
