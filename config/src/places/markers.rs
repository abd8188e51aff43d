//! Workspace markers: the files and folders that make a folder a workspace.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Name of our folder in a workspace.
pub(crate) const DOT_SUBAGENT: &str = ".subagent";
/// Name of the config file in [`DOT_SUBAGENT`] and in the user's config folder.
pub(crate) const CONFIG_FILE: &str = "config.yaml";
/// Name of the controller hint in [`DOT_SUBAGENT`].
pub(crate) const CONTROLLER_FILE: &str = "controller.json";
/// Name of the state dir in [`DOT_SUBAGENT`].
pub(crate) const STATE: &str = "state";

/// Returns the nearest of this folder and its parents that contains one of these paths.
pub(crate) fn nearest<'a>(start: &'a Path, markers: &[PathBuf]) -> Option<&'a Path> {
    start.ancestors().find(|folder| markers.iter().any(|marker| counts(folder, marker)))
}

/// Ignores a marker that another user (except root) created in a world-writable folder. A config file names
/// programs to run, and a stranger could leave one in `/tmp`.
fn counts(folder: &Path, marker: &Path) -> bool {
    if std::fs::metadata(folder.join(marker)).is_err() {
        return false;
    }
    // Uses the owner of the entry in the folder: of a link, not of its target.
    let Some(entry) = marker.components().next() else { return false };
    match (std::fs::metadata(folder), std::fs::symlink_metadata(folder.join(entry))) {
        (Ok(folder), Ok(entry)) => !is_planted(folder.mode(), entry.uid(), nix::unistd::geteuid().as_raw()),
        _ => false,
    }
}

fn is_planted(folder_mode: u32, owner: u32, own: u32) -> bool {
    const OTHERS_MAY_WRITE: u32 = 0o002;
    folder_mode & OTHERS_MAY_WRITE != 0 && owner != own && owner != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_cannot_plant_a_workspace() {
        assert!(is_planted(0o041_777, 1001, 1000));
        assert!(is_planted(0o041_777, 1001, 0));
        assert!(!is_planted(0o041_777, 1000, 1000));
        assert!(!is_planted(0o041_777, 0, 1000));
        // In containers, checkouts often belong to another user.
        assert!(!is_planted(0o040_755, 1000, 0));
        assert!(!is_planted(0o040_775, 1000, 1001));
    }

    #[test]
    fn the_nearest_folder_wins() {
        let dir = tempfile::tempdir().unwrap();
        let deep = dir.path().join("a/b");
        std::fs::create_dir_all(&deep).unwrap();
        let marker = [PathBuf::from("m/file")];
        std::fs::create_dir(dir.path().join("m")).unwrap();
        assert_eq!(nearest(&deep, &marker), None);
        std::fs::write(dir.path().join("m/file"), "").unwrap();
        assert_eq!(nearest(&deep, &marker), Some(dir.path()));
        std::fs::create_dir(deep.join("m")).unwrap();
        assert_eq!(nearest(&deep, &marker), Some(dir.path()));
        std::fs::write(deep.join("m/file"), "").unwrap();
        assert_eq!(nearest(&deep, &marker), Some(deep.as_path()));
    }
}
