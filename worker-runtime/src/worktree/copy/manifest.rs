//! The files of a copy at its start, and what was merged since: the base of its changes.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use subagent_protocol::Error;
use subagent_protocol::bytes64::Bytes64;
use subagent_protocol::ids::hex;
use subagent_protocol::worktree::Worktree;

use super::super::registration::write_whole;
use super::super::work::step;
use super::super::{errors, status};
use super::tree::{self, At, Found};

/// The files of a folder by relative path, without folders.
pub(super) type Files = BTreeMap<Vec<u8>, ManifestEntry>;

/// A file or link, for comparison.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum ManifestEntry {
    File { sha256: String, executable: bool },
    Link(Bytes64),
}

impl ManifestEntry {
    /// Returns the entry of what a walk found; `None` for a folder.
    pub(super) fn of(found: Found) -> io::Result<Option<Self>> {
        Ok(match found {
            Found::Folder(_) => None,
            Found::Link(target) => Some(Self::Link(Bytes64(target))),
            Found::File(mut file, stat) => {
                let mut hash = Sha256::new();
                let mut bytes = vec![0; 256 * 1024];
                loop {
                    match file.read(&mut bytes)? {
                        0 => break,
                        length => hash.update(&bytes[..length]),
                    }
                }
                let sha256 = hex(&hash.finalize());
                Some(Self::File { sha256, executable: stat.st_mode & 0o100 != 0 })
            }
        })
    }
}

/// Returns the files of a folder.
pub(super) fn files(top: &Path, without: &[PathBuf]) -> Result<Files, Error> {
    let mut files = Files::new();
    let walked = tree::walk(top, without, &mut |path, found| {
        if let Some(entry) = ManifestEntry::of(found)? {
            files.insert(path.as_os_str().as_bytes().to_vec(), entry);
        }
        Ok(())
    });
    walked.map_err(|error| errors::file(top, &error))?;
    Ok(files)
}

/// The state of one path.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PathState {
    Known(Option<ManifestEntry>),
    /// Something that is neither a file nor a link is in its place.
    Blocked,
}

/// Returns the present state of one path below a folder.
pub(super) fn state(top: &Path, name: &[u8]) -> Result<PathState, Error> {
    let path = status::path(name);
    let found = tree::at(top, path).and_then(|at| match at {
        At::Nothing => Ok(PathState::Known(None)),
        At::Blocked => Ok(PathState::Blocked),
        At::Here(found) => ManifestEntry::of(found).map(PathState::Known),
    });
    found.map_err(|error| errors::file(&top.join(path), &error))
}

fn path(worktree: &Worktree) -> PathBuf {
    worktree.repository.join(format!(".{}.base", worktree.name))
}

/// Returns the base; `None` if the copy is incomplete or gone.
pub(super) fn read(worktree: &Worktree) -> Result<Option<Files>, Error> {
    let path = path(worktree);
    let text = match fs::read(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(errors::file(&path, &error)),
    };
    let listed: Vec<(Bytes64, ManifestEntry)> =
        serde_json::from_slice(&text).map_err(|error| errors::file(&path, &error.into()))?;
    Ok(Some(listed.into_iter().map(|(name, entry)| (name.0, entry)).collect()))
}

/// Stores the base. A copy with a base is complete.
pub(super) fn write(worktree: &Worktree, files: &Files) -> Result<(), Error> {
    let path = path(worktree);
    let listed: Vec<(Bytes64, &ManifestEntry)> =
        files.iter().map(|(name, entry)| (Bytes64(name.clone()), entry)).collect();
    let text = serde_json::to_vec(&listed).map_err(|error| errors::file(&path, &error.into()))?;
    step();
    write_whole(&path, &text).map_err(|error| errors::file(&path, &error))
}

pub(super) fn delete(worktree: &Worktree) -> Result<(), Error> {
    let path = path(worktree);
    match fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(errors::file(&path, &error)),
        _ => Ok(()),
    }
}
