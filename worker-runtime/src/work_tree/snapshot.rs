//! Creates a tree object of the present work tree.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;

use nix::unistd::{AccessFlags, access};

use super::limits::WorkTreeLimits;
use crate::git::{Git, GitFailure};

/// Maximum length of the list of changed files, in bytes.
const MAX_NAMES: usize = 16 * 1024 * 1024;
/// Maximum length of an object name with its line end.
const MAX_ID: usize = 128;

/// Updates the index from the work tree and writes its tree.
///
/// Does not use `git add`, which runs `git status` in submodules, with their config.
///
/// # Errors
///
/// See [`GitFailure`] for the reasons.
pub(super) fn write(git: &Git<'_>, limits: WorkTreeLimits) -> Result<String, GitFailure> {
    let list = ["ls-files", "-z", "--modified", "--deleted", "--others", "--exclude-standard"];
    let names = git.run(&list, b"", MAX_NAMES)?;
    // A file may be listed more than once. A folder is a separate repository.
    let names: BTreeSet<&[u8]> =
        names.split(|byte| *byte == 0).filter(|name| !name.is_empty() && !name.ends_with(b"/")).collect();
    if names.len() > limits.files {
        return Err(GitFailure::TooLarge);
    }
    let (mut bytes, mut input) = (0, Vec::new());
    for name in names {
        let path = git.folder.join(OsStr::from_bytes(name));
        if let Ok(meta) = fs::symlink_metadata(&path) {
            bytes += meta.len();
            // Git would stop at the first file it cannot read.
            if meta.is_file() && access(&path, AccessFlags::R_OK).is_err() {
                continue;
            }
        }
        input.extend_from_slice(name);
        input.push(0);
    }
    if bytes > limits.bytes {
        return Err(GitFailure::TooLarge);
    }
    if !input.is_empty() {
        git.run(&["update-index", "-z", "--add", "--remove", "--replace", "--stdin"], &input, MAX_ID)?;
    }
    let tree = git.run(&["write-tree"], b"", MAX_ID)?;
    Ok(String::from_utf8_lossy(&tree).trim().to_owned())
}
