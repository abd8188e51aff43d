//! Merges two commits file by file, for a worktree that is a copy of the workspace.
//!
//! A file that changed on both sides is a conflict, even if the changed lines differ.

use std::collections::BTreeMap;
use std::path::Path;

use subagent_protocol::Error;

use super::super::status::path;
use super::super::work::OperationContext;
use super::change::{self, PathChange, TreeEntry};
use super::merge::MergedTree;

/// Applies the changes of `theirs` since `base` to `ours`, for a landing on the commit `target`.
pub(super) fn merge(
    work: &OperationContext<'_>,
    repository: &Path,
    [base, ours, theirs]: [&str; 3],
    target: &str,
) -> Result<MergedTree, Error> {
    let changes = change::between(work, repository, base, theirs)?;
    let contains = |whole: &str, part: &str| -> Result<bool, Error> {
        Ok(work.asked(repository, &["merge-base", "--is-ancestor", part, whole])?.is_some())
    };
    // A worktree that contains the target has resolved all conflicts with it. One that started there
    // has resolved none: its base has the user's uncommitted changes too.
    let resolved = contains(theirs, ours)? && !contains(base, target)?;
    let own = if resolved { Vec::new() } else { change::between(work, repository, base, ours)? };
    let conflicts = conflicts(&changes, &own);
    if !conflicts.is_empty() {
        return Ok(MergedTree::Conflict(conflicts));
    }
    change::applied(work, repository, ours, &changes.iter().collect::<Vec<_>>()).map(MergedTree::Tree)
}

/// Returns the names of `changes` that exclude one of `own`, sorted.
fn conflicts(changes: &[PathChange], own: &[PathChange]) -> Vec<String> {
    let after: BTreeMap<&[u8], Option<&TreeEntry>> =
        own.iter().map(|change| (&*change.path, change.after.as_ref())).collect();
    let present: Vec<&Path> =
        own.iter().filter(|change| change.after.is_some()).map(|change| path(&change.path)).collect();
    let is_conflict = |change: &&PathChange| {
        let name = path(&change.path);
        match after.get(&*change.path) {
            Some(own) => *own != change.after.as_ref(),
            // A file on one side is a folder on the other one.
            None => {
                change.after.is_some()
                    && present.iter().any(|own| own.starts_with(name) || name.starts_with(own))
            }
        }
    };
    let names = changes.iter().filter(is_conflict);
    let mut names: Vec<_> = names.map(|change| String::from_utf8_lossy(&change.path).into_owned()).collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(path: &str, after: Option<&str>) -> PathChange {
        let entry = |id: &str| TreeEntry { mode: "100644".to_owned(), id: id.to_owned() };
        PathChange { path: path.as_bytes().to_vec(), before: Some(entry("0")), after: after.map(entry) }
    }

    #[test]
    fn files_that_changed_differently_on_both_sides_are_conflicts() {
        let changes = [
            change("same", Some("1")),
            change("other", Some("1")),
            change("deleted", None),
            change("folder", Some("1")),
            change("a/b", Some("1")),
            change("alone", Some("1")),
            change("gone/x", None),
        ];
        let own = [
            change("same", Some("1")),
            change("other", Some("2")),
            change("deleted", Some("2")),
            change("folder/file", Some("2")),
            change("a", Some("2")),
            change("gone/y", Some("2")),
            change("alone-too", Some("2")),
        ];
        assert_eq!(conflicts(&changes, &own), ["a/b", "deleted", "folder", "other"]);
        assert!(conflicts(&changes, &[]).is_empty());
    }
}
