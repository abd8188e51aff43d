//! Serializes the operations on a worktree.

use std::path::Path;

use subagent_protocol::Error;
use subagent_protocol::worktree::Worktree;

use super::errors;
use super::land::restore;
use super::registration::Registration;
use super::work::OperationContext;

/// Carries out an operation while no other one works on the worktree.
pub(super) fn exclusively<'a, T>(
    work: &OperationContext<'a>,
    name: &str,
    worktree: &Worktree,
    operation: impl FnOnce(&OperationContext<'a>) -> Result<T, Error>,
) -> Result<T, Error> {
    if !worktree.repository.is_dir() {
        return Err(errors::not_found(&worktree.repository, "the repository is gone"));
    }
    let folder = worktree.path.parent().unwrap_or(Path::new("/"));
    let path = match worktree.is_inside() {
        // Processes in a sandbox can write only here.
        true => worktree.repository.join("subagent-lock"),
        false => folder.join(format!(".{}.lock", worktree.name)),
    };
    work.locked(name, &path, &worktree.repository, |work| {
        // A copy is unknown to git, also where its folder has a repository.
        let found = if worktree.copied.is_some() { None } else { Registration::find(worktree)? };
        let found = found.filter(|found| found.path.is_dir() && worktree.sandbox.is_none());
        let answer = found.map_or(Ok(()), |found| restore(work, &found)).and_then(|()| operation(work));
        if !worktree.path.exists() {
            // The lock file is removed with the worktree; waiting processes notice that.
            let _ = std::fs::remove_file(&path);
        }
        answer
    })
}
