//! Runs the user's checks in the worktree, on the files as they will be in the target.

use std::fs;

use subagent_protocol::worktree::Worktree;
use subagent_protocol::{Code, Error};

use super::super::registration::Registration;
use super::super::work::{OperationContext, line, step};
use super::super::{checkout, errors, usable};
use super::change::{self, TreeEntry};

/// A file in the worktree's git directory that records a temporary checkout. It has three lines:
/// the original branch (may be empty), its commit, and the temporary commit.
const CHECKING: &str = "subagent-checking";

/// Runs the checks in order. Restores the original checkout afterwards.
pub(in super::super) fn run(
    work: &OperationContext<'_>,
    worktree: &Worktree,
    checks: &[String],
    commit: &str,
) -> Result<(), Error> {
    if checks.is_empty() {
        return Ok(());
    }
    let found = &super::there(worktree)?;
    let head = checkout::head(work, &found.path)?.unwrap_or_default();
    let branch = work.asked(&found.path, &["symbolic-ref", "--quiet", "HEAD"])?.map(|name| line(&name));
    found.write(CHECKING, format!("{}\n{head}\n{commit}\n", branch.unwrap_or_default()).as_bytes())?;
    let checked = check(work, worktree, found, checks, commit);
    restore(work, found)?;
    checked
}

fn check(
    work: &OperationContext<'_>,
    worktree: &Worktree,
    found: &Registration,
    checks: &[String],
    commit: &str,
) -> Result<(), Error> {
    let args = ["checkout", "--quiet", "--no-overwrite-ignore", "--detach", commit];
    work.run(&found.path, &args)?;
    for command in checks {
        step();
        if let Some(failed) = usable::run(work, worktree, &found.path, command)? {
            let message = format!("the check `{command}` failed with the merged files");
            return Err(failed.into_error(Code::LandCheckFailed, message, command));
        }
    }
    Ok(())
}

/// Restores the checkout from before the checks, even if they were killed.
pub(in super::super) fn restore(work: &OperationContext<'_>, found: &Registration) -> Result<(), Error> {
    let Some(text) = found.read(CHECKING) else { return Ok(()) };
    let text = String::from_utf8_lossy(&text).into_owned();
    let mut lines = text.lines();
    let (Some(branch), Some(before), Some(merged)) = (lines.next(), lines.next(), lines.next()) else {
        return Err(errors::not_found(&found.admin.join(CHECKING), "the file cannot be read"));
    };
    match branch {
        "" => work.run(&found.path, &["update-ref", "--no-deref", "HEAD", before])?,
        branch => work.run(&found.path, &["symbolic-ref", "HEAD", branch])?,
    };
    work.run(&found.path, &["reset", "--quiet", "--hard", before])?;
    // A killed checkout may have written files that are in no index.
    let changes = change::between(work, &found.path, before, merged)?;
    let new: Vec<_> = changes.into_iter().filter(|change| change.before.is_none()).collect();
    let other = change::differing(work, &found.common(), &found.path, &new, |change| change.after.as_ref())?;
    for change in new.iter().filter(|change| !other.contains(&*change.path)) {
        let file = found.path.join(super::super::status::path(&change.path));
        if !TreeEntry::is_module(change.after.as_ref()) && file.symlink_metadata().is_ok() {
            fs::remove_file(&file).map_err(|error| errors::file(&file, &error))?;
        }
    }
    let marker = found.admin.join(CHECKING);
    step();
    fs::remove_file(&marker).map_err(|error| errors::file(&marker, &error))
}
