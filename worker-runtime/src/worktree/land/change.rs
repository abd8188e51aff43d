//! The changes of a landing in a work tree, and the files present there.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use subagent_protocol::Error;

use super::super::commits::lines;
use super::super::keep::is_below_link;
use super::super::scratch::Scratch;
use super::super::status::{parts, path, split_at_tab};
use super::super::work::{OperationContext, line};
use crate::git::Git;

/// A path that differs between two commits.
#[derive(Debug, Clone)]
pub(super) struct PathChange {
    pub(super) path: Vec<u8>,
    pub(super) before: Option<TreeEntry>,
    pub(super) after: Option<TreeEntry>,
}

/// A file of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TreeEntry {
    pub(super) mode: String,
    pub(super) id: String,
}

impl TreeEntry {
    /// Formats an entry for `update-index --index-info`.
    pub(super) fn line(entry: Option<&Self>, path: &[u8], none: &str) -> Vec<u8> {
        let (mode, id) = entry.map_or(("0", none), |entry| (&*entry.mode, &*entry.id));
        [format!("{mode} {id} 0\t").as_bytes(), path, b"\0"].concat()
    }

    /// Whether it is a submodule, which has a separate work tree.
    pub(super) fn is_module(entry: Option<&Self>) -> bool {
        entry.is_some_and(|entry| entry.mode == "160000")
    }
}

/// Returns the differences between two commits.
pub(super) fn between(
    work: &OperationContext<'_>,
    folder: &Path,
    before: &str,
    after: &str,
) -> Result<Vec<PathChange>, Error> {
    let raw =
        work.run(folder, &["diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", before, after])?;
    let (mut changes, mut fields) = (Vec::new(), parts(&raw));
    while let (Some(facts), Some(path)) = (fields.next(), fields.next()) {
        let facts = String::from_utf8_lossy(facts).into_owned();
        let facts: Vec<&str> = facts.trim_start_matches(':').split(' ').collect();
        let [mode_before, mode_after, id_before, id_after, _] = facts[..] else { continue };
        let entry = |mode: &str, id: &str| {
            (mode != "000000").then(|| TreeEntry { mode: mode.to_owned(), id: id.to_owned() })
        };
        let (before, after) = (entry(mode_before, id_before), entry(mode_after, id_after));
        changes.push(PathChange { path: path.to_vec(), before, after });
    }
    Ok(changes)
}

/// Returns a commit's tree with these changes applied.
pub(super) fn applied(
    work: &OperationContext<'_>,
    repository: &Path,
    commit: &str,
    changes: &[&PathChange],
) -> Result<String, Error> {
    let scratch = Scratch::new(repository)?;
    let mut git = work.git(repository);
    git.places = vec![("GIT_INDEX_FILE", scratch.path("applied").into())];
    work.feed(&git, &["read-tree", commit], b"")?;
    let none = "0".repeat(commit.len());
    let mut entries: Vec<u8> = Vec::new();
    // Deletions first: a folder may become a file.
    for is_there in [false, true] {
        for change in changes.iter().filter(|change| change.after.is_some() == is_there) {
            entries.extend(TreeEntry::line(change.after.as_ref(), &change.path, &none));
        }
    }
    work.feed(&git, &["update-index", "-z", "--add", "--replace", "--index-info"], &entries)?;
    Ok(line(&work.feed(&git, &["write-tree"], b"")?))
}

/// Returns the paths whose file differs from the given side. Compares content, with git's filters.
pub(super) fn differing<'a>(
    work: &OperationContext<'_>,
    repository: &Path,
    top: &Path,
    changes: &'a [PathChange],
    side: impl Fn(&PathChange) -> Option<&TreeEntry>,
) -> Result<BTreeSet<&'a [u8]>, Error> {
    let scratch = Scratch::new(repository)?;
    let mut git = work.git(top);
    git.places = vec![("GIT_INDEX_FILE", scratch.path("index").into())];
    let (mut input, mut differing) = (Vec::new(), BTreeSet::new());
    for change in changes {
        match side(change) {
            Some(entry) if TreeEntry::is_module(Some(entry)) => {}
            // Git would follow a link in the place of a folder.
            Some(_) if is_below_link(top, path(&change.path)) => {
                differing.insert(&*change.path);
            }
            Some(entry) => input.extend(TreeEntry::line(Some(entry), &change.path, "")),
            None if is_there(top, &change.path) => {
                differing.insert(&*change.path);
            }
            None => {}
        }
    }
    if input.is_empty() {
        return Ok(differing);
    }
    work.feed(&git, &["update-index", "-z", "--add", "--index-info"], &input)?;
    // Compares the content, because this index has no times of files. Also lists missing files.
    let names = work.feed(&git, &["ls-files", "-z", "--modified", "--deleted"], b"")?;
    let names: BTreeSet<&[u8]> = parts(&names).collect();
    let is_named = |change: &&PathChange| names.contains(&*change.path);
    differing.extend(changes.iter().filter(is_named).map(|change| &*change.path));
    Ok(differing)
}

/// Whether a file exists. A file behind a link is another one.
fn is_there(top: &Path, name: &[u8]) -> bool {
    let mut folder = top.to_owned();
    let mut parts = path(name).components().peekable();
    while let Some(part) = parts.next() {
        folder.push(part);
        let Ok(meta) = folder.symlink_metadata() else { return false };
        if parts.peek().is_some() && !meta.is_dir() {
            return false;
        }
    }
    true
}

/// Returns the user's files that a landing would change: staged, changed or untracked.
pub(super) fn dirty(
    work: &OperationContext<'_>,
    repository: &Path,
    top: &Path,
    git: &Git<'_>,
    before: &str,
    changes: &[PathChange],
) -> Result<Vec<String>, Error> {
    let deleted: BTreeSet<&[u8]> =
        changes.iter().filter(|change| change.after.is_none()).map(|change| &*change.path).collect();
    let staged =
        work.feed(git, &["diff-index", "--cached", "--name-only", "-z", "--no-renames", before], b"")?;
    let staged: BTreeSet<&[u8]> = parts(&staged).collect();
    let sparse = IndexEntries::read(work, git)?.sparse;
    let differing = differing(work, repository, top, changes, |change| change.before.as_ref())?;
    let mut found = BTreeSet::new();
    for change in changes {
        let name = &*change.path;
        let is_left_out = sparse.contains(name) && !is_there(top, name);
        let is_replaced = change.before.is_none() && only_deleted(top, name, &deleted);
        if staged.contains(name) || (differing.contains(name) && !is_left_out && !is_replaced) {
            found.insert(String::from_utf8_lossy(name).into_owned());
        }
        // A user's file where a folder is needed.
        if change.before.is_none() {
            for folder in path(name).ancestors().skip(1).filter(|folder| !folder.as_os_str().is_empty()) {
                let bytes = folder.as_os_str().as_encoded_bytes();
                let is_file = top.join(folder).symlink_metadata().is_ok_and(|meta| !meta.is_dir());
                if is_file && !deleted.contains(bytes) {
                    found.insert(folder.to_string_lossy().into_owned());
                }
            }
        }
    }
    Ok(found.into_iter().collect())
}

/// Whether a folder that becomes a file contains only deleted files.
pub(super) fn only_deleted(top: &Path, name: &[u8], deleted: &BTreeSet<&[u8]>) -> bool {
    let folder = top.join(path(name));
    if !folder.symlink_metadata().is_ok_and(|meta| meta.is_dir()) {
        return false;
    }
    let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
    entries
        .map(|entry| [name, b"/", entry.file_name().as_encoded_bytes()].concat())
        .all(|below| deleted.contains(&*below) || only_deleted(top, &below, deleted))
}

/// The entries of an index.
#[derive(Debug, Default)]
pub(super) struct IndexEntries {
    pub(super) entries: BTreeMap<Vec<u8>, TreeEntry>,
    /// The files that a sparse checkout leaves out.
    pub(super) sparse: BTreeSet<Vec<u8>>,
}

impl IndexEntries {
    pub(super) fn read(work: &OperationContext<'_>, git: &Git<'_>) -> Result<Self, Error> {
        let mut found = Self::default();
        for entry in parts(&work.feed(git, &["ls-files", "-z", "-v", "--stage"], b"")?) {
            let Some((facts, name)) = split_at_tab(entry) else { continue };
            let facts = String::from_utf8_lossy(facts).into_owned();
            let mut facts = facts.split(' ');
            let (Some(tag), Some(mode), Some(id)) = (facts.next(), facts.next(), facts.next()) else {
                continue;
            };
            if matches!(tag, "S" | "s") {
                found.sparse.insert(name.to_vec());
            }
            found.entries.insert(name.to_vec(), TreeEntry { mode: mode.to_owned(), id: id.to_owned() });
        }
        Ok(found)
    }
}

/// Counts changed files and lines, for display.
pub(super) fn numbers(
    work: &OperationContext<'_>,
    folder: &Path,
    before: &str,
    after: &str,
) -> Result<super::super::look::Numbers, Error> {
    let args = ["diff-tree", "-r", "-z", "--numstat", "--no-renames", before, after];
    Ok(super::super::look::numbers(&work.run(folder, &args)?))
}

/// Returns the only line of an output.
pub(super) fn first(bytes: &[u8]) -> Option<String> {
    lines(bytes).next()
}
