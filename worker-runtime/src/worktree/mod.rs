//! `subagent-runtime worktree`: one operation on a git worktree, see [`subagent_protocol::worktree`].
//!
//! Must not know workers, and must not lose a byte: what it removes is in a commit that a ref keeps.
//!
//! In the worktree's own git directory (`.git/worktrees/ID`) we keep `subagent` (its name: it is ours and was made
//! whole), `subagent-ready` (its time: when the setup ended) and `subagent-removing` (a removal has begun).

mod alone;
mod checkout;
mod commits;
mod create;
mod discard;
mod errors;
mod keep;
mod land;
mod lock;
mod look;
mod modules;
mod patch;
mod plan;
mod registration;
mod remove;
mod retired;
mod scratch;
mod status;
mod usable;
mod waiting;
mod work;

#[cfg(test)]
mod tests;

use std::io::{self, Read as _, Write as _};

use subagent_protocol::worktree::{Answer, Operation};

use self::alone::alone;
pub use self::patch::patch;
pub use self::plan::repository;
use self::work::{Env, Patience, Work};

/// Reads an operation from the standard input, carries it out, and writes the answer.
///
/// # Errors
/// When the input is no operation, or the answer cannot be written.
pub(crate) fn run() -> io::Result<()> {
    let mut text = Vec::new();
    let _ = io::stdin().lock().read_to_end(&mut text)?;
    let operation: Operation = serde_json::from_slice(&text).map_err(io::Error::other)?;
    let env: Vec<_> = std::env::vars_os().collect();
    let mut line =
        serde_json::to_vec(&answer(operation, &env, Patience::default())).map_err(io::Error::other)?;
    line.push(b'\n');
    io::stdout().write_all(&line)
}

fn answer(operation: Operation, env: &Env, patience: Patience) -> Answer {
    let work = Work::new(env, patience);
    let answer = match operation {
        Operation::Plan { cwd, root, branch, base, with_changes } => {
            let wanted = plan::Wanted { branch, base, with_changes };
            plan::plan(&work, &cwd, &root, &wanted).map(Answer::Planned)
        }
        Operation::Create { worktree, setup } => alone(&work, "create", &worktree, |work| {
            create::create(work, &worktree)?;
            usable::make(work, &worktree, &setup)
        }),
        Operation::Setup { worktree, setup } => {
            alone(&work, "setup", &worktree, |work| usable::make(work, &worktree, &setup))
        }
        Operation::Look { worktree } => {
            alone(&work, "look", &worktree, |work| look::look(work, &worktree).map(Answer::Found))
        }
        Operation::Remove { worktree } => {
            alone(&work, "remove", &worktree, |work| remove::remove(work, &worktree))
        }
        Operation::Discard { worktree, time } => {
            alone(&work, "discard", &worktree, |work| discard::discard(work, &worktree, time))
        }
        Operation::Prune { repository, before } => retired::prune(&work, &repository, before),
        Operation::Land { worktree, landing } => {
            alone(&work, "land", &worktree, |work| land::land(work, &worktree, &landing))
        }
        Operation::Recover { repository } => land::recover(&work, &repository),
    };
    answer.unwrap_or_else(Answer::Failed)
}
