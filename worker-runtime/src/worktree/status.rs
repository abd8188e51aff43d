//! Unfinished operations of a work tree, and an index without hidden files.

use std::path::Path;

use subagent_protocol::Error;

use super::errors;
use super::modules::{self, Submodule};
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

/// Git with a copy of a work tree's index. In the copy, no file is marked as assumed unchanged or
/// skipped.
pub(super) struct OwnIndex<'a> {
    pub(super) git: Git<'a>,
    /// The submodules in the index.
    pub(super) modules: Vec<Submodule>,
    /// Whether it has files with several sides.
    pub(super) is_unmerged: bool,
}

pub(super) fn with_own_index<'a>(
    work: &'a OperationContext<'_>,
    top: &'a Path,
    git_dir: &Path,
    scratch: &Scratch,
) -> Result<OwnIndex<'a>, Error> {
    let index = scratch.path("index");
    match copy_index(&git_dir.join("index"), &index) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(errors::file(&git_dir.join("index"), &error));
        }
        _ => {}
    }
    let mut git = work.git(top);
    git.places = vec![("GIT_INDEX_FILE", index.into())];
    let list = work.feed(&git, &["ls-files", "-z", "-v", "--stage"], b"")?;
    let hidden = hidden(&list, top);
    if !hidden.is_empty() {
        for flag in ["--no-assume-unchanged", "--no-skip-worktree"] {
            work.feed(&git, &["update-index", flag, "-z", "--stdin"], &hidden)?;
        }
    }
    let modules = modules::listed(parts(&list).filter_map(|entry| entry.get(2..)));
    let is_unmerged = parts(&list).filter_map(split_at_tab).any(|(facts, _)| !facts.ends_with(b" 0"));
    Ok(OwnIndex { git, modules, is_unmerged })
}

/// Returns files of `ls-files -v -z --stage` that are hidden and exist. Those left out by a sparse
/// checkout do not exist.
fn hidden(list: &[u8], top: &Path) -> Vec<u8> {
    let mut found = Vec::new();
    for entry in parts(list) {
        let (Some(tag), Some((_, name))) = (entry.first(), split_at_tab(entry)) else { continue };
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

/// Splits an entry of `ls-files --stage` before its name.
pub(super) fn split_at_tab(entry: &[u8]) -> Option<(&[u8], &[u8])> {
    let tab = memchr::memchr(b'\t', entry)?;
    Some((&entry[..tab], &entry[tab + 1..]))
}

/// Splits the output of a command with `-z`.
pub(super) fn parts(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.split(|byte| *byte == 0).filter(|part| !part.is_empty())
}
