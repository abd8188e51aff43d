//! Which folder a state dir is. A copy has the same files in another folder; the processes, sockets and workers that
//! these files name belong to the original.
//!
//! Only a daemon writes the identity; everybody may read it.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use subagent_protocol::api::{DaemonInfo, StateFolder};

use crate::regular;

/// The file of a state dir that holds its identity.
pub const STATE_ID: &str = "state-id";

/// What a daemon has written down about the folder that it serves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StateIdentity {
    /// The folder, with its random id.
    #[serde(flatten)]
    pub folder: StateFolder,
    /// The boot in which the device number was read; another boot may number devices differently.
    pub boot_id: String,
    /// The id of the state dir that this one is a copy of. Empty: the original had no id yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copy_of: Option<String>,
    /// Where the original was, as far as the copied files say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copied_from: Option<PathBuf>,
}

/// How a folder compares with an identity that lies in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Likeness {
    /// It is this folder.
    Same,
    /// It is this folder, but the system was started again and may number its devices differently.
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
    pub fn likeness(&self, folder: &Metadata, boot_id: &str) -> Likeness {
        match (self.folder.is(folder.dev(), folder.ino()), self.folder.inode == folder.ino()) {
            (true, _) if self.boot_id == boot_id => Likeness::Same,
            (_, true) if self.boot_id != boot_id => Likeness::Renumbered,
            _ => Likeness::Copy,
        }
    }
}

/// The folder behind a path, with the id that lies in it, if any.
///
/// # Errors
/// What the system says about the folder.
pub fn folder_at(state_dir: &Path) -> io::Result<StateFolder> {
    let meta = std::fs::metadata(state_dir)?;
    let id = StateIdentity::read(state_dir).map(|identity| identity.folder.id).unwrap_or_default();
    Ok(StateFolder { device: meta.dev(), inode: meta.ino(), id })
}

/// Whether a `daemon.json` is about the state dir that it lies in, and not about one that this is a copy of.
#[must_use]
pub fn announces(info: &DaemonInfo, state_dir: &Path) -> bool {
    // Without the folder there is nothing that could be confused.
    state_dir.metadata().map_or(true, |meta| is_about(info, &meta))
}

/// Whether a `daemon.json` is about the folder with this metadata.
#[must_use]
pub fn is_about(info: &DaemonInfo, folder: &Metadata) -> bool {
    match &info.state_folder {
        Some(named) => named.is(folder.dev(), folder.ino()),
        // Of an older daemon only the path is known.
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
    fn a_folder_is_told_from_its_copies_also_after_a_reboot() {
        let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let meta = one.path().metadata().unwrap();
        let own = identity(&meta);
        assert_eq!(own.likeness(&meta, "now"), Likeness::Same);
        assert_eq!(own.likeness(&meta, "later"), Likeness::Renumbered);
        assert_eq!(own.likeness(&other.path().metadata().unwrap(), "now"), Likeness::Copy);
        assert_eq!(own.likeness(&other.path().metadata().unwrap(), "later"), Likeness::Copy);
        let mut moved = own;
        moved.folder.device += 1;
        assert_eq!(moved.likeness(&meta, "now"), Likeness::Copy);
        assert_eq!(moved.likeness(&meta, "later"), Likeness::Renumbered);
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
