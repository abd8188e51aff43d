//! Operations in an agent's repository. This process runs in the agent's sandbox.

use subagent_protocol::Error;
use subagent_protocol::worktree::Worktree;

use super::exclusive::exclusively;
use super::keep::Keeping;
use super::own::ask::{BranchTip, InsideOperation, InsideRequest, InsideResult};
use super::work::{CallerEnvironment, OperationContext, WaitLimits, line};
use super::{discard, land, look, patch, usable};

/// Carries out a request inside the sandbox.
pub(super) fn answer(request: InsideRequest, env: &CallerEnvironment, waits: WaitLimits) -> InsideResult {
    let work = OperationContext::new(env, waits);
    let InsideRequest { worktree, wish } = request;
    let result = exclusively(&work, "inside", &worktree, |work| {
        Ok(match wish {
            InsideOperation::Look => InsideResult::Contents(look::look(work, &worktree)?),
            InsideOperation::Setup { setup } => {
                usable::make(work, &worktree, &setup).map(|_| InsideResult::Done)?
            }
            InsideOperation::Commit { landing, target } => {
                target.map_or(Ok(()), |target| renew(work, &worktree, &target))?;
                InsideResult::Commit(Some(land::commit_all(work, &worktree, &landing)?))
            }
            InsideOperation::Commits { time } => InsideResult::Commit(land::commits(work, &worktree, time)?),
            InsideOperation::All { time } => {
                let found = look::registered(&worktree)?;
                let keeping = Keeping { work, worktree: &worktree, time };
                InsideResult::Commit(found.map(|found| discard::of_folder(&keeping, &found)).transpose()?)
            }
            InsideOperation::Check { checks, commit } => {
                land::check(work, &worktree, &checks, &commit)?;
                InsideResult::Done
            }
            InsideOperation::GoOn { commit } => {
                land::go_on(work, &worktree, &commit)?;
                InsideResult::Done
            }
            InsideOperation::Patch => InsideResult::Patch(patch::of(work, &worktree)?),
        })
    });
    result.unwrap_or_else(|error: Error| InsideResult::Failed(error))
}

/// Moves a branch to its commit in the main repository, unless the agent has checked it out.
fn renew(work: &OperationContext<'_>, worktree: &Worktree, target: &BranchTip) -> Result<(), Error> {
    let name = format!("refs/heads/{}", target.branch);
    let head = work.asked(&worktree.path, &["symbolic-ref", "--quiet", "HEAD"])?;
    if head.is_some_and(|head| line(&head) == name) {
        return Ok(());
    }
    work.run(&worktree.path, &["update-ref", &name, &target.commit]).map(drop)
}
