//! Unfinished operations of a work tree, and an index without hidden files.

use std::path::Path;

use subagent_protocol::Error;

use super::errors;
use super::scratch::Scratch;
use super::work::OperationContext;
use crate::git::Git;
use crate::work_tree::record::copy_index;

/// Files of a git directory that mark an unfinished operation.
const SIGNS: [(&str, &str); 7] = [
    ("rebase-merge", "rebase"),
    ("rebase-apply", "rebase"),
    ("MERGE_HEAD", "merge"),
    ("CHERRY_PICK_HEAD", "cherry-pick"),
    ("REVERT_HEAD", "revert"),
    ("sequencer", "cherry-pick"),
    ("BISECT_LOG", "bisect"),
];

/// Returns the unfinished operation of this git directory.
pub(super) fn under_way(git_dir: &Path) -> Option<&'static str> {
    SIGNS.iter().find(|(file, _)| git_dir.join(file).exists()).map(|(_, what)| *what)
}

/// Refuses a work tree with an unfinished operation that ours would disturb.
pub(super) fn refuse_under_way(work: &OperationContext<'_>, top: &Path, git_dir: &Path) -> Result<(), Error> {
    let refused = |reason: &str, message: String| {
        Err(errors::busy(reason, message)
            .with("path", top.display().to_string())
            .recommend("finish or abort it with git, and try again"))
    };
    if let Some(what) = under_way(git_dir).filter(|what| *what != "bisect") {
        return refused(what, format!("a {what} is under way in {}", top.display()));
    }
    if !work.run(top, &["ls-files", "-z", "--unmerged"])?.is_empty() {
        return refused("unmerged", format!("{} has unmerged files", top.display()));
    }
    Ok(())
}

/// Returns git with a copy of a work tree's index. In the copy, no file is marked as
/// assumed unchanged or skipped.
pub(super) fn with_own_index<'a>(
    work: &'a OperationContext<'_>,
    top: &'a Path,
    git_dir: &Path,
    scratch: &Scratch,
    name: &str,
) -> Result<Git<'a>, Error> {
    let index = scratch.path(name);
    match copy_index(&git_dir.join("index"), &index) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(errors::file(&git_dir.join("index"), &error));
        }
        _ => {}
    }
    let mut git = work.git(top);
    git.places = vec![("GIT_INDEX_FILE", index.into())];
    let hidden = hidden(&work.feed(&git, &["ls-files", "-z", "-v"], b"")?, top);
    if !hidden.is_empty() {
        for flag in ["--no-assume-unchanged", "--no-skip-worktree"] {
            work.feed(&git, &["update-index", flag, "-z", "--stdin"], &hidden)?;
        }
    }
    Ok(git)
}

/// Returns files of `ls-files -v -z` that are hidden and exist. Those left out by a sparse
/// checkout do not exist.
fn hidden(list: &[u8], top: &Path) -> Vec<u8> {
    let mut found = Vec::new();
    for entry in list.split(|byte| *byte == 0) {
        let (Some(tag), Some(name)) = (entry.first(), entry.get(2..)) else { continue };
        let is_hidden =
            tag.is_ascii_lowercase() || (*tag == b'S' && top.join(path(name)).symlink_metadata().is_ok());
        if is_hidden {
            found.extend_from_slice(name);
            found.push(0);
        }
    }
    found
}

/// Returns a path printed by git.
pub(super) fn path(name: &[u8]) -> &Path {
    use std::os::unix::ffi::OsStrExt as _;
    Path::new(std::ffi::OsStr::from_bytes(name))
}

/// Splits the output of a command with `-z`.
pub(super) fn parts(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.split(|byte| *byte == 0).filter(|part| !part.is_empty())
}
