//! Operations in an agent's repository. This process runs in the agent's sandbox.

use subagent_protocol::Error;
use subagent_protocol::worktree::Worktree;

use super::alone::alone;
use super::keep::Keeping;
use super::own::ask::{Request, Said, Target, Wish};
use super::work::{Env, Patience, Work, line};
use super::{discard, land, look, patch, usable};

/// Carries out a request inside the sandbox.
pub(super) fn answer(request: Request, env: &Env, patience: Patience) -> Said {
    let work = Work::new(env, patience);
    let Request { worktree, wish } = request;
    let said = alone(&work, "inside", &worktree, |work| {
        Ok(match wish {
            Wish::Look => Said::Contents(look::look(work, &worktree)?),
            Wish::Setup { setup } => usable::make(work, &worktree, &setup).map(|_| Said::Done)?,
            Wish::Commit { landing, target } => {
                target.map_or(Ok(()), |target| renew(work, &worktree, &target))?;
                Said::Commit(Some(land::commit_all(work, &worktree, &landing)?))
            }
            Wish::Commits { time } => Said::Commit(land::commits(work, &worktree, time)?),
            Wish::All { time } => {
                let found = look::registered(&worktree)?;
                let keeping = Keeping { work, worktree: &worktree, time };
                Said::Commit(found.map(|found| discard::of_folder(&keeping, &found)).transpose()?)
            }
            Wish::Check { checks, commit } => {
                land::check(work, &worktree, &checks, &commit)?;
                Said::Done
            }
            Wish::GoOn { commit } => {
                land::go_on(work, &worktree, &commit)?;
                Said::Done
            }
            Wish::Patch => Said::Patch(patch::of(work, &worktree)?),
        })
    });
    said.unwrap_or_else(|error: Error| Said::Failed(error))
}

/// Moves a branch to its commit in the main repository, unless the agent has checked it out.
fn renew(work: &Work<'_>, worktree: &Worktree, target: &Target) -> Result<(), Error> {
    let name = format!("refs/heads/{}", target.branch);
    let head = work.asked(&worktree.path, &["symbolic-ref", "--quiet", "HEAD"])?;
    if head.is_some_and(|head| line(&head) == name) {
        return Ok(());
    }
    work.run(&worktree.path, &["update-ref", &name, &target.commit]).map(drop)
}
