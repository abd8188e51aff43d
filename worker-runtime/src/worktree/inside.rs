//! What is done in the repository of an agent: this process is in the agent's sandbox.

use subagent_protocol::Error;

use super::alone::alone;
use super::keep::Keeping;
use super::own::ask::{Request, Said, Wish};
use super::work::{Env, Patience, Work, line};
use super::{discard, land, look, patch, usable};

/// Does it; this process is inside.
pub(super) fn answer(request: Request, env: &Env, patience: Patience) -> Said {
    let work = Work::new(env, patience);
    let Request { worktree, wish } = request;
    let said = alone(&work, "inside", &worktree, |work| {
        Ok(match wish {
            Wish::Look => Said::Contents(look::look(work, &worktree)?),
            Wish::Setup { setup } => usable::make(work, &worktree, &setup).map(|_| Said::Done)?,
            Wish::Commit { landing, target } => {
                let name = format!("refs/heads/{}", target.branch);
                // The agent may have checked it out.
                if work
                    .asked(&worktree.path, &["symbolic-ref", "--quiet", "HEAD"])?
                    .map(|head| line(&head))
                    .as_ref()
                    != Some(&name)
                {
                    work.run(&worktree.path, &["update-ref", &name, &target.commit])?;
                }
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
