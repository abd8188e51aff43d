//! `Remove`: removes a worktree without content of its own, with its branch.

use std::fs;
use std::io;
use std::path::Path;

use subagent_protocol::Error;
use subagent_protocol::worktree::{Worktree, WorktreeResult};

use super::checkout::Checkout;
use super::create::tip;
use super::look;
use super::registration::{REMOVING, Registration};
use super::work::{OperationContext, line, step};
use super::{errors, retired};
use crate::git::GitFailure;

pub(super) fn remove(work: &OperationContext<'_>, worktree: &Worktree) -> Result<WorktreeResult, Error> {
    let at = tip(work, worktree)?;
    let contents = look::before_removal(work, worktree)?;
    if !contents.is_clean() {
        return Ok(WorktreeResult::Found(contents));
    }
    if let Some(found) = Registration::find(worktree)? {
        found.refuse_if_locked()?;
        let was_begun = found.read(REMOVING).is_some();
        found.write(REMOVING, b"")?;
        if contents.exists && !take_away(work, worktree, &found, was_begun)? {
            let _ = fs::remove_file(found.admin.join(REMOVING));
            // It has changed since the check.
            return look::look(work, worktree).map(WorktreeResult::Found);
        }
        forget(&found)?;
    }
    if worktree.with_changes {
        retired::keep_base(work, worktree)?;
    }
    delete_branch(work, worktree, at.as_deref())?;
    Ok(WorktreeResult::Removed)
}

/// Makes git remove the folder, which checks again for content. Returns false if git refuses.
fn take_away(
    work: &OperationContext<'_>,
    worktree: &Worktree,
    found: &Registration,
    was_begun: bool,
) -> Result<bool, Error> {
    let top = Checkout { deletions_count: false, ..Checkout::of(worktree, found) };
    let modules = top.below(work)?;
    for module in &modules {
        // They are clean, like the whole worktree. An empty folder is an uninitialized submodule.
        step();
        empty(&module.top).map_err(|error| errors::file(&module.top, &error))?;
    }
    let own = found.admin.join("modules");
    if own.exists() {
        step();
        fs::remove_dir_all(&own).map_err(|error| errors::file(&own, &error))?;
    }
    if was_begun {
        // After a killed removal, missing files are not changes.
        work.run(&found.path, &["reset", "--quiet", "--hard"]).map(drop)?;
    }
    let path = found.path.as_os_str();
    let args = [path_arg("worktree"), path_arg("remove"), path];
    match work.ask(&work.git(&worktree.repository), &args, b"")? {
        Ok(_) => Ok(true),
        Err(GitFailure::Refused { stderr, .. }) if stderr.contains("contains modified or untracked") => {
            Ok(false)
        }
        Err(failure) => Err(failure.into()),
    }
}

fn path_arg(text: &str) -> &std::ffi::OsStr {
    text.as_ref()
}

/// Removes git's data about a worktree whose folder is gone.
pub(super) fn forget(found: &Registration) -> Result<(), Error> {
    step();
    match fs::remove_dir_all(&found.admin) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(errors::file(&found.admin, &error)),
        _ => Ok(()),
    }
}

/// Deletes the branch if it has not moved. Keeps a branch that is checked out elsewhere.
pub(super) fn delete_branch(
    work: &OperationContext<'_>,
    worktree: &Worktree,
    at: Option<&str>,
) -> Result<(), Error> {
    let Some(at) = at else { return Ok(()) };
    let name = format!("refs/heads/{}", worktree.branch);
    let used = ["for-each-ref", "--format=%(worktreepath)", &name];
    if !line(&work.run(&worktree.repository, &used)?).is_empty() {
        return Ok(());
    }
    let deleted = work.ask(&work.git(&worktree.repository), &["update-ref", "-d", &name, at], b"")?;
    match deleted {
        Err(GitFailure::Refused { .. }) if tip(work, worktree)?.as_deref() != Some(at) => {
            Err(errors::busy("moved", format!("the branch {} has moved meanwhile", worktree.branch)))
        }
        other => Ok(other.map(drop)?),
    }
}

fn empty(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let is_dir = entry.file_type()?.is_dir();
        if is_dir { fs::remove_dir_all(entry.path()) } else { fs::remove_file(entry.path()) }?;
    }
    Ok(())
}
