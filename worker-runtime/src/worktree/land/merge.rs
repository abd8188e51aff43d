//! Merges two commits into a tree, without a work tree.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use subagent_protocol::Error;

use super::super::scratch::Scratch;
use super::super::status::parts;
use super::super::work::{OperationContext, line};
use super::super::{errors, plan};
use crate::git::GitFailure;

/// First git version that merges with a given base.
const MERGES: (u32, u32) = (2, 40);

/// The resulting tree, or the files with conflicting changes.
#[derive(Debug, PartialEq, Eq)]
pub(in super::super) enum MergedTree {
    Tree(String),
    Conflict(Vec<String>),
}

/// Merges the changes of `theirs` since `base` into `ours`.
pub(in super::super) fn merge(
    work: &OperationContext<'_>,
    repository: &Path,
    base: &str,
    ours: &str,
    theirs: &str,
) -> Result<MergedTree, Error> {
    match plan::version(work, repository)? >= MERGES {
        true => in_memory(work, repository, base, ours, theirs),
        false => with_files(work, repository, base, ours, theirs),
    }
}

fn in_memory(
    work: &OperationContext<'_>,
    repository: &Path,
    base: &str,
    ours: &str,
    theirs: &str,
) -> Result<MergedTree, Error> {
    let base = format!("--merge-base={base}");
    let args = ["merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", &base, ours, theirs];
    match work.ask(&work.git(repository), &args, b"")? {
        Ok(tree) => Ok(MergedTree::Tree(line(parts(&tree).next().unwrap_or_default()))),
        Err(GitFailure::Refused { code: Some(1), printed, .. }) if !printed.is_empty() => {
            Ok(MergedTree::Conflict(names(parts(&printed).skip(1))))
        }
        Err(failure) => Err(failure.into()),
    }
}

/// The same for an older git, with a temporary index and folder.
pub(in super::super) fn with_files(
    work: &OperationContext<'_>,
    repository: &Path,
    base: &str,
    ours: &str,
    theirs: &str,
) -> Result<MergedTree, Error> {
    let scratch = Scratch::new(repository)?;
    let folder = scratch.path("files");
    fs::create_dir(&folder).map_err(|error| errors::file(&folder, &error))?;
    let mut git = work.git(&folder);
    git.places = vec![
        ("GIT_DIR", repository.into()),
        ("GIT_WORK_TREE", folder.clone().into()),
        ("GIT_INDEX_FILE", scratch.path("index").into()),
    ];
    work.feed(&git, &["read-tree", "-i", "-m", "--aggressive", base, ours, theirs], b"")?;
    // Fails if a file has a conflict, which stays unmerged in the index.
    match work.ask(&git, &["merge-index", "-o", "-q", "git-merge-one-file", "-a"], b"")? {
        Ok(_) | Err(GitFailure::Refused { .. }) => {}
        Err(failure) => return Err(failure.into()),
    }
    let unmerged = work.feed(&git, &["diff", "-z", "--name-only", "--diff-filter=U"], b"")?;
    if unmerged.is_empty() {
        return Ok(MergedTree::Tree(line(&work.feed(&git, &["write-tree"], b"")?)));
    }
    Ok(MergedTree::Conflict(names(parts(&unmerged))))
}

fn names<'a>(parts: impl Iterator<Item = &'a [u8]>) -> Vec<String> {
    let names: BTreeSet<String> = parts.map(|name| String::from_utf8_lossy(name).into_owned()).collect();
    names.into_iter().collect()
}
