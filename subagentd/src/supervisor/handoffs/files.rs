//! Writes the files of a snapshot atomically: the folder has its name only when all are complete.

use std::collections::{HashMap, HashSet};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use subagent_protocol::ids::SnapshotId;

/// Prefix of the name of an incomplete folder.
const UNFINISHED: &str = ".unfinished-";

/// Creates `folder`, which must not exist, with these files (modes 0700 and 0600, synced).
///
/// # Errors
/// Those of the system, with the affected path. Nothing is left then.
pub(super) fn write(folder: &Path, files: &[(&str, String)]) -> Result<(), (PathBuf, io::Error)> {
    let at = |path: &Path| {
        let path = path.to_owned();
        move |error| (path, error)
    };
    let (Some(parent), Some(name)) = (folder.parent(), folder.file_name()) else {
        return Err((folder.to_owned(), io::ErrorKind::InvalidInput.into()));
    };
    DirBuilder::new().recursive(true).mode(0o700).create(parent).map_err(at(parent))?;
    let unfinished = parent.join(format!("{UNFINISHED}{}", name.to_string_lossy()));
    DirBuilder::new().mode(0o700).create(&unfinished).map_err(at(&unfinished))?;
    let done = fill(&unfinished, files).and_then(|()| {
        subagent_failpoint::check("handoff.before_rename").map_err(at(folder))?;
        fs::rename(&unfinished, folder).map_err(at(folder))?;
        subagent_failpoint::hit("handoff.after_rename");
        File::open(parent).and_then(|parent| parent.sync_all()).map_err(at(parent))
    });
    if done.is_err() {
        remove(&unfinished);
    }
    done
}

fn fill(folder: &Path, files: &[(&str, String)]) -> Result<(), (PathBuf, io::Error)> {
    for (name, text) in files {
        let path = folder.join(name);
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        let checked = subagent_failpoint::check("handoff.before_write");
        let written = checked.and_then(|()| options.open(&path)).and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            subagent_failpoint::check("handoff.before_sync")?;
            file.sync_all()
        });
        written.map_err(|error| (path, error))?;
    }
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(|error| (folder.to_owned(), error))
}

/// Removes a snapshot folder. A remaining one is harmless, because no row refers to it.
pub(super) fn remove(folder: &Path) {
    if let Err(error) = fs::remove_dir_all(folder)
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(folder = %folder.display(), %error, "an unused handoff cannot be removed");
    }
}

/// Removes folders of these workers that are incomplete or belong to no known snapshot.
pub(super) fn remove_strays(base: &Path, known: &HashMap<String, HashSet<String>>) {
    // Usually there are none, and often no base folder.
    for worker in fs::read_dir(base).into_iter().flatten().flatten() {
        let Some(snapshots) = worker.file_name().to_str().and_then(|worker| known.get(worker)) else {
            continue;
        };
        for folder in fs::read_dir(worker.path()).into_iter().flatten().flatten() {
            let name = folder.file_name();
            let Some(name) = name.to_str() else { continue };
            let unknown = name.parse::<SnapshotId>().is_ok() && !snapshots.contains(name);
            if unknown || name.starts_with(UNFINISHED) {
                remove(&folder.path());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn files_are_private_and_complete() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("handoffs/w_1/hs_1");
        write(&folder, &[("a", "text".to_owned()), ("b", String::new())]).unwrap();
        assert_eq!(fs::read_to_string(folder.join("a")).unwrap(), "text");
        assert_eq!(
            (mode(&folder), mode(&folder.join("b")), mode(&dir.path().join("handoffs"))),
            (0o700, 0o600, 0o700)
        );
        // An existing folder stays unchanged, and no incomplete one is left.
        fs::remove_file(folder.join("b")).unwrap();
        write(&folder, &[("a", "other".to_owned())]).unwrap_err();
        assert_eq!(fs::read_to_string(folder.join("a")).unwrap(), "text");
        assert_eq!(fs::read_dir(folder.parent().unwrap()).unwrap().count(), 1);
    }

    #[test]
    fn what_was_left_unfinished_or_without_a_row_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let worker = dir.path().join("w_1");
        let foreign = dir.path().join("w_2/hs_0000000003");
        fs::create_dir_all(&foreign).unwrap();
        for folder in [".unfinished-hs_1", "hs_0000000001", "hs_0000000002", "notes"] {
            fs::create_dir_all(worker.join(folder)).unwrap();
        }
        let known = HashMap::from([("w_1".to_owned(), HashSet::from(["hs_0000000002".to_owned()]))]);
        remove_strays(dir.path(), &known);
        remove_strays(&dir.path().join("nothing here"), &known);
        let left = fs::read_dir(&worker).unwrap().map(|entry| entry.unwrap().file_name());
        let mut left: Vec<_> = left.collect();
        left.sort_unstable();
        assert_eq!(left, ["hs_0000000002", "notes"]);
        assert!(foreign.is_dir(), "the store does not know its worker");
    }
}
