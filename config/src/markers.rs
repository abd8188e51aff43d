//! The files and folders that make a folder a workspace, and which of them count.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Folder of ours in a workspace.
pub(crate) const DOT_SUBAGENT: &str = ".subagent";
/// The config file in [`DOT_SUBAGENT`], and in the user's config folder.
pub(crate) const CONFIG_FILE: &str = "config.yaml";
/// The controller hint in [`DOT_SUBAGENT`].
pub(crate) const CONTROLLER_FILE: &str = "controller.json";
/// The state dir in [`DOT_SUBAGENT`].
pub(crate) const STATE: &str = "state";

/// The nearest of this folder and its parents that holds one of these paths.
pub(crate) fn nearest<'a>(start: &'a Path, markers: &[PathBuf]) -> Option<&'a Path> {
    start.ancestors().find(|folder| markers.iter().any(|marker| counts(folder, marker)))
}

/// A marker counts if it exists, unless somebody else put it into a folder where everybody may write: a config file
/// names programs to run, and whoever works below `/tmp` did not choose the one that a stranger left there.
fn counts(folder: &Path, marker: &Path) -> bool {
    if std::fs::metadata(folder.join(marker)).is_err() {
        return false;
    }
    // The owner of the entry in the folder itself; a link's own owner, not its target's.
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
        // A checkout that belongs to another user is common in containers.
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
