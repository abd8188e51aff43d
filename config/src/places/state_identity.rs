//! Identity of a state dir's folder. A copy has the same files in another folder, but the
//! processes, sockets and workers that they name belong to the original. Only a daemon writes the
//! identity; any process may read it.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use subagent_protocol::api::{DaemonInfo, StateFolder};

use crate::regular;

/// The file with the identity in a state dir.
pub const STATE_ID: &str = "state-id";

/// The identity that a daemon recorded for its folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StateIdentity {
    /// The folder with its random id.
    #[serde(flatten)]
    pub folder: StateFolder,
    /// The boot in which the device number was read; numbers may differ after a reboot.
    pub boot_id: String,
    /// The id of the state dir that was copied; empty if the original had no id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copy_of: Option<String>,
    /// The path of the original according to the copied files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copied_from: Option<PathBuf>,
}

/// The result of comparing a folder with the identity in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FolderMatch {
    /// The identity belongs to this folder.
    Same,
    /// It belongs to this folder, but the device number changed with a reboot.
    Renumbered,
    /// The identity was copied from another folder.
    Copy,
}

impl StateIdentity {
    /// Reads the identity; `None` if it is missing or damaged.
    #[must_use]
    pub fn read(state_dir: &Path) -> Option<Self> {
        serde_json::from_slice(&regular::read(&state_dir.join(STATE_ID)).ok()?).ok()
    }

    /// Compares a folder with this identity.
    #[must_use]
    pub fn likeness(&self, folder: &Metadata, boot_id: &str) -> FolderMatch {
        match (self.folder.is(folder.dev(), folder.ino()), self.folder.inode == folder.ino()) {
            (true, _) if self.boot_id == boot_id => FolderMatch::Same,
            (_, true) if self.boot_id != boot_id => FolderMatch::Renumbered,
            _ => FolderMatch::Copy,
        }
    }
}

/// Returns the folder at a path with the id in it, if any.
///
/// # Errors
/// The folder cannot be examined.
pub fn folder_at(state_dir: &Path) -> io::Result<StateFolder> {
    let meta = std::fs::metadata(state_dir)?;
    let id = StateIdentity::read(state_dir).map(|identity| identity.folder.id).unwrap_or_default();
    Ok(StateFolder { device: meta.dev(), inode: meta.ino(), id })
}

/// Whether a `daemon.json` is about this state dir, not about the original of a copy.
#[must_use]
pub fn announces(info: &DaemonInfo, state_dir: &Path) -> bool {
    // Without the folder, confusion is impossible.
    state_dir.metadata().map_or(true, |meta| is_about(info, &meta))
}

/// Whether a `daemon.json` is about the folder with this metadata.
#[must_use]
pub fn is_about(info: &DaemonInfo, folder: &Metadata) -> bool {
    match &info.state_folder {
        Some(named) => named.is(folder.dev(), folder.ino()),
        // An older daemon records only the path.
        None => {
            let same = |at: Metadata| (at.dev(), at.ino()) == (folder.dev(), folder.ino());
            info.state_dir.metadata().map_or(true, same)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(meta: &Metadata) -> StateIdentity {
        StateIdentity {
            folder: StateFolder { device: meta.dev(), inode: meta.ino(), id: "abc".to_owned() },
            boot_id: "now".to_owned(),
            copy_of: None,
            copied_from: None,
        }
    }

    #[test]
    fn a_folder_is_distinguished_from_its_copies_also_after_a_reboot() {
        let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let meta = one.path().metadata().unwrap();
        let own = identity(&meta);
        assert_eq!(own.likeness(&meta, "now"), FolderMatch::Same);
        assert_eq!(own.likeness(&meta, "later"), FolderMatch::Renumbered);
        assert_eq!(own.likeness(&other.path().metadata().unwrap(), "now"), FolderMatch::Copy);
        assert_eq!(own.likeness(&other.path().metadata().unwrap(), "later"), FolderMatch::Copy);
        let mut moved = own;
        moved.folder.device += 1;
        assert_eq!(moved.likeness(&meta, "now"), FolderMatch::Copy);
        assert_eq!(moved.likeness(&meta, "later"), FolderMatch::Renumbered);
    }

    #[test]
    fn an_identity_is_read_back_and_damage_is_none() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(StateIdentity::read(dir.path()), None);
        let own = identity(&dir.path().metadata().unwrap());
        std::fs::write(dir.path().join(STATE_ID), serde_json::to_vec(&own).unwrap()).unwrap();
        assert_eq!(StateIdentity::read(dir.path()), Some(own.clone()));
        assert_eq!(folder_at(dir.path()).unwrap(), own.folder);
        std::fs::write(dir.path().join(STATE_ID), "{").unwrap();
        assert_eq!(StateIdentity::read(dir.path()), None);
        assert_eq!(folder_at(dir.path()).unwrap().id, "");
    }
}
