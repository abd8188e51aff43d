//! The changes of a worktree as a patch, including uncommitted and untracked files.
//! Changes nothing in it.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use subagent_protocol::Error;
use subagent_protocol::api::FileChange;
use subagent_protocol::worktree::{Worktree, bounded, in_message};

use super::exclusive::exclusively;
use super::scratch::Scratch;
use super::work::{OperationContext, WAIT_LIMITS};
use super::{copy, errors, look, own};

/// Returns a patch from the worktree's base to its present files, in the format of `git apply`.
/// `runtime` is the program `subagent-runtime`, which runs in the sandbox of a confined worktree.
///
/// # Errors
///
/// `WORKTREE_NOT_FOUND`, `WORKTREE_BUSY`, or `GIT_FAILED`, as stable codes.
pub fn patch(worktree: &Worktree, env: &[(OsString, OsString)], runtime: &Path) -> Result<Vec<u8>, Error> {
    let work = OperationContext::new(env, WAIT_LIMITS).with_runtime(runtime);
    if worktree.copied.is_some() {
        return of_copy(changed_files(worktree, env)?);
    }
    exclusively(&work, "patch", worktree, |work| match &worktree.sandbox {
        Some(sandbox) => own::patch(work, worktree, sandbox),
        None => of(work, worktree),
    })
}

/// Returns the files that a copy has changed, compared with the original as it is now.
///
/// # Errors
///
/// `WORKTREE_NOT_FOUND`, `WORKTREE_BUSY`, or `GIT_FAILED` for files that cannot be read.
pub fn changed_files(worktree: &Worktree, env: &[(OsString, OsString)]) -> Result<Vec<FileChange>, Error> {
    let work = OperationContext::new(env, WAIT_LIMITS);
    exclusively(&work, "diff", worktree, |_| copy::changed_files(worktree))
}

fn of_copy(changes: Vec<FileChange>) -> Result<Vec<u8>, Error> {
    let binary = changes.iter().filter(|change| change.added.is_none());
    let binary: Vec<String> = binary.map(|change| change.path.clone()).collect();
    if !binary.is_empty() {
        let message = format!("a patch without git cannot contain binary files: {}", in_message(&binary));
        return Err(errors::refused("binary", message)
            .with("files", bounded(binary).0)
            .recommend("take the files with `subagent land` or `subagent task merge`"));
    }
    Ok(changes.into_iter().map(|change| change.patch).collect::<String>().into_bytes())
}

pub(super) fn of(work: &OperationContext<'_>, worktree: &Worktree) -> Result<Vec<u8>, Error> {
    let found = look::registered(worktree)?;
    let found = found.ok_or_else(|| errors::not_found(&worktree.path, "the worktree is gone"))?;
    let scratch = Scratch::new(&worktree.repository)?;
    let mut git = work.git(&found.path);
    // A temporary index: the worktree's index stays unchanged.
    git.places.push(("GIT_INDEX_FILE", scratch.path("index").into()));
    work.feed(&git, &["read-tree", "HEAD"], b"")?;
    work.feed(&git, &["add", "--all"], b"")?;
    let args = ["diff", "--cached", "--binary", "--no-ext-diff", "--no-textconv", "--no-color"];
    let args: Vec<&OsStr> = args.iter().copied().chain([&*worktree.base]).map(OsStr::new).collect();
    work.feed(&git, &args, b"")
}
