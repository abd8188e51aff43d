//! `Merge` and `Land` of a copy: its changed files come to the original folder, one by one.
//!
//! Can be repeated after a kill: files that equal the copy's are done.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use subagent_protocol::worktree::{
    AfterLanding, Landed, Landing, Merged, Worktree, WorktreeResult, bounded, in_message,
};
use subagent_protocol::{Code, Error};

use super::super::land::files::is_withheld;
use super::super::land::finish;
use super::super::work::{OperationContext, step};
use super::super::{errors, status};
use super::manifest::{self, PathState};
use super::tree::{self, At};
use super::{Change, changes, make, run, text};

/// The lock file that all copies of a folder have in common.
const LOCK: &str = ".lock";

/// Takes all files that changed only in the copy.
pub(super) fn merge(
    work: &OperationContext<'_>,
    worktree: &Worktree,
    landing: &Landing,
) -> Result<WorktreeResult, Error> {
    let merged = bring(work, worktree, landing, false)?;
    Ok(WorktreeResult::Merged(merged))
}

/// Takes all changes, or none if a file changed on both sides.
pub(super) fn land(
    work: &OperationContext<'_>,
    worktree: &Worktree,
    landing: &Landing,
) -> Result<WorktreeResult, Error> {
    if landing.into.is_some() {
        return Err(errors::argument("into", "a copy of a folder has no branches; land it without --into"));
    }
    for command in &landing.checks {
        step();
        if let Some(failed) = run(work, worktree, command)? {
            let message = format!("the check `{command}` failed in {}", worktree.path.display());
            return Err(failed.into_error(Code::LandCheckFailed, message, command));
        }
    }
    let into = worktree.main.display().to_string();
    let merged = bring(work, worktree, landing, true)?;
    if !merged.refused.is_empty() {
        let names = in_message(&merged.refused);
        let message =
            format!("{} and {into} have both changed {names}, or the copy leaves them out", worktree.name);
        let (files, more) = bounded(merged.refused);
        let error = Error::new(Code::LandConflict, message).with("files", files).with("into", into);
        return Err(if more == 0 { error } else { error.with("moreFiles", more) });
    }
    Ok(WorktreeResult::Landed(Landed {
        into,
        commit: String::new(),
        before: String::new(),
        files: merged.files,
        added: 0,
        removed: 0,
        retired: None,
        worktree_removed: merged.worktree_removed,
    }))
}

/// Writes the files while no other copy of the same folder does. With `all`, a single conflict leaves
/// everything unchanged.
fn bring(
    work: &OperationContext<'_>,
    worktree: &Worktree,
    landing: &Landing,
    all: bool,
) -> Result<Merged, Error> {
    let (repository, name) = (&worktree.repository, if all { "land" } else { "merge" });
    work.locked(name, &repository.join(LOCK), repository, |_| bring_locked(worktree, landing, all))
}

fn bring_locked(worktree: &Worktree, landing: &Landing, all: bool) -> Result<Merged, Error> {
    let mut merged = Merged { base: worktree.base.clone(), ..Merged::default() };
    match worktree.path.symlink_metadata() {
        // An earlier attempt was killed after its last step.
        Err(error) if error.kind() == io::ErrorKind::NotFound && landing.then == AfterLanding::Remove => {
            super::remove_all(worktree)?;
            return Ok(Merged { worktree_removed: true, ..merged });
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(errors::not_found(&worktree.path, "the folder of the copy is gone"));
        }
        Err(error) => return Err(errors::file(&worktree.path, &error)),
        Ok(_) => {}
    }
    let gone = || errors::not_found(&worktree.path, "the copy is incomplete");
    let mut base = manifest::read(worktree)?.ok_or_else(gone)?;
    let present = manifest::files(&worktree.path, &[])?;
    let changes = changes(&base, &present);
    let Sorted { done, taken, refused, of_git } = sort(worktree, &changes, &landing.withheld)?;
    merged.refused = refused.iter().map(|change| text(change.name)).collect();
    if all && !merged.refused.is_empty() {
        return Ok(merged);
    }
    if !all {
        merged.refused.extend(of_git.iter().map(|change| text(change.name)));
    }
    let mut done: Vec<Vec<u8>> = done.iter().map(|change| change.name.to_vec()).collect();
    // Deletions first: a folder may become a file.
    let (written, deleted): (Vec<&Change<'_>>, Vec<&Change<'_>>) =
        taken.into_iter().partition(|change| change.after.is_some());
    for change in deleted.into_iter().chain(written) {
        match take(worktree, change)? {
            true => done.push(change.name.to_vec()),
            false => merged.refused.push(text(change.name)),
        }
    }
    merged.refused.sort();
    merged.files = done.iter().map(|name| text(name)).collect();
    merged.files.sort();
    for name in done {
        match present.get(&name) {
            Some(entry) => base.insert(name, entry.clone()),
            None => base.remove(&name),
        };
    }
    if !merged.files.is_empty() {
        manifest::write(worktree, &base)?;
    }
    if merged.refused.is_empty() && landing.then == AfterLanding::Remove {
        merged.worktree_removed = matches!(super::remove(worktree)?, WorktreeResult::Removed);
    }
    Ok(merged)
}

/// Deletes or writes one file. Returns false if the original has changed meanwhile.
fn take(worktree: &Worktree, change: &Change<'_>) -> Result<bool, Error> {
    let (main, path) = (&worktree.main, status::path(change.name));
    if manifest::state(main, change.name)? != PathState::Known(change.before.cloned()) {
        return Ok(false);
    }
    let taken = match change.after {
        None => {
            step();
            finish::delete(main, path)
        }
        Some(_) => tree::at(&worktree.path, path).and_then(|at| match at {
            At::Here(found) => make::put(found, main, path),
            At::Nothing | At::Blocked => Err(io::Error::other("it changed during the merge")),
        }),
    };
    taken.map_err(|error| errors::file(&main.join(path), &error))?;
    Ok(true)
}

struct Sorted<'a> {
    /// The original has them.
    done: Vec<&'a Change<'a>>,
    /// The original has the state of the base.
    taken: Vec<&'a Change<'a>>,
    refused: Vec<&'a Change<'a>>,
    /// Git would run commands from them. They stay in the copy.
    of_git: Vec<&'a Change<'a>>,
}

fn sort<'a>(
    worktree: &Worktree,
    changes: &'a [Change<'a>],
    withheld: &[String],
) -> Result<Sorted<'a>, Error> {
    let main = &*worktree.main;
    let left_out = left_out(worktree);
    let (mut done, mut taken, mut refused, mut of_git) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut blocked = Vec::new();
    let mut deleted: BTreeSet<&Path> = BTreeSet::new();
    for change in changes {
        let path = status::path(change.name);
        let whole = main.join(path);
        // Below it, or in the place of a folder above it.
        if left_out.iter().any(|left_out| whole.starts_with(left_out) || left_out.starts_with(&whole)) {
            refused.push(change);
            continue;
        }
        match manifest::state(main, change.name)? {
            PathState::Known(ours) if ours.as_ref() == change.after => done.push(change),
            _ if is_of_git(path) => of_git.push(change),
            _ if is_withheld(change.name, withheld) => refused.push(change),
            PathState::Known(ours) if ours.as_ref() == change.before => {
                if change.after.is_none() {
                    deleted.insert(path);
                }
                taken.push(change);
            }
            PathState::Known(_) => refused.push(change),
            PathState::Blocked => blocked.push(change),
        }
    }
    for change in blocked {
        let path = status::path(change.name);
        // A file that this merge deletes, in the place of a folder; or a folder that it empties.
        let file_above = path.ancestors().skip(1).any(|above| deleted.contains(above));
        let emptied = change.before.is_none() && only(main, path, &deleted);
        if file_above || emptied { taken.push(change) } else { refused.push(change) }
    }
    refused.sort_by_key(|change| change.name);
    Ok(Sorted { done, taken, refused, of_git })
}

/// Returns the paths below the original that the copy has left out, in both spellings.
pub(super) fn left_out(worktree: &Worktree) -> Vec<PathBuf> {
    let without = worktree.copied.iter().flat_map(|copied| &copied.without);
    let spelled = without.flat_map(|path| [Some(path.clone()), path.canonicalize().ok()]).flatten();
    spelled.filter(|path| path.starts_with(&worktree.main) && *path != worktree.main).collect()
}

/// Whether it belongs to a git directory, also where the file system ignores case.
pub(super) fn is_of_git(path: &Path) -> bool {
    path.components().any(|part| part.as_os_str().eq_ignore_ascii_case(".git"))
}

/// Whether a folder contains only files that are deleted.
fn only(main: &Path, folder: &Path, deleted: &BTreeSet<&Path>) -> bool {
    let Ok(entries) = std::fs::read_dir(main.join(folder)) else { return false };
    entries.flatten().all(|entry| {
        let path = folder.join(entry.file_name());
        deleted.contains(&*path)
            || (entry.file_type().is_ok_and(|kind| kind.is_dir()) && only(main, &path, deleted))
    })
}
