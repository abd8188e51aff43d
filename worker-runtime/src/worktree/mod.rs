//! `subagent-runtime worktree`: one operation on a git worktree, see
//! [`subagent_protocol::worktree`]. Knows no workers. Must not lose a byte: removed content is in a
//! commit that a ref keeps.

// A worktree whose agent is in a sandbox is a separate repository, see `own`. A copy of a folder
// without git is one too, see `copy`.
//
// The worktree's git directory (`.git/worktrees/ID`) has up to three files of ours:
//
// - `subagent`: contains the worktree's name; the worktree is ours and complete.
// - `subagent-ready`: its time is the end of the setup.
// - `subagent-removing`: a removal has begun.

mod checkout;
mod commits;
mod copy;
mod create;
mod discard;
mod errors;
mod exclusive;
mod identity;
mod inside;
mod keep;
mod land;
mod lock;
mod look;
mod modules;
mod own;
mod patch;
mod placed;
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

use std::ffi::OsString;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;
use subagent_protocol::worktree::{Operation, WorktreeResult};
use subagent_protocol::{Code, Error};

use self::exclusive::exclusively;
pub use self::identity::lacks_identity;
pub use self::patch::{changed_files, patch};
pub use self::plan::repository;
use self::work::{CallerEnvironment, OperationContext, WAIT_LIMITS, WaitLimits};

/// Returns the folder of all copies of a folder. `root` is the folder of all worktrees.
#[must_use]
pub fn copies(main: &Path, root: &Path) -> PathBuf {
    copy::folder(main, root)
}

/// Reads an operation from standard input, carries it out, and writes the result. With the word
/// `inside`, a process like this one requests it from within an agent's sandbox.
///
/// # Errors
///
/// The input is not an operation, or the result cannot be written.
pub(crate) fn run(word: Option<OsString>) -> io::Result<()> {
    match word {
        Some(word) if word == own::ask::INSIDE => {
            serve(|request, env| inside::answer(request, env, WAIT_LIMITS))
        }
        _ => serve(|operation, env| answer(operation, env, WAIT_LIMITS)),
    }
}

/// Reads one request from standard input and writes its result.
fn serve<R: DeserializeOwned, A: Serialize>(
    answer: impl FnOnce(R, &CallerEnvironment) -> A,
) -> io::Result<()> {
    let mut text = Vec::new();
    let _ = io::stdin().lock().read_to_end(&mut text)?;
    let request = serde_json::from_slice(&text).map_err(io::Error::other)?;
    let env: Vec<_> = std::env::vars_os().collect();
    let mut line = serde_json::to_vec(&answer(request, &env)).map_err(io::Error::other)?;
    line.push(b'\n');
    io::stdout().write_all(&line)
}

fn answer(operation: Operation, env: &CallerEnvironment, waits: WaitLimits) -> WorktreeResult {
    let work = OperationContext::new(env, waits);
    let answer = match copy::answer(&work, &operation) {
        Some(answer) => answer,
        None => placed::answer(&work, operation),
    };
    answer.unwrap_or_else(WorktreeResult::Failed)
}

/// Carries out an operation on a git worktree of this machine.
fn carried_out(work: &OperationContext<'_>, operation: Operation) -> Result<WorktreeResult, Error> {
    match operation {
        Operation::Plan { cwd, root, branch, base, with_changes, copy } => {
            let wanted = plan::WorktreeRequest { branch, base, with_changes };
            let planned = match &copy {
                Some(wish) if wish.always => copy::plan(&cwd, &root, wish),
                _ => plan::plan(work, &cwd, &root, &wanted),
            };
            match (planned, &copy) {
                (Err(error), Some(wish)) if error.code == Code::WorktreeNeedsGit && !wish.always => {
                    copy::plan(&cwd, &root, wish)
                }
                (planned, _) => planned,
            }
            .map(WorktreeResult::Planned)
        }
        Operation::Create { worktree, setup } => exclusively(work, "create", &worktree, |work| {
            create::create(work, &worktree)?;
            match worktree.sandbox {
                // No agent has touched its content yet.
                Some(_) => usable::make(work, &worktree.from_inside(), &setup),
                None => usable::make(work, &worktree, &setup),
            }
        }),
        Operation::Setup { worktree, setup } => {
            exclusively(work, "setup", &worktree, |work| match &worktree.sandbox {
                Some(sandbox) => own::setup(work, &worktree, sandbox, &setup),
                None => usable::make(work, &worktree, &setup),
            })
        }
        Operation::Look { worktree } => {
            exclusively(work, "look", &worktree, |work| match &worktree.sandbox {
                Some(sandbox) => own::look(work, &worktree, sandbox).map(WorktreeResult::Found),
                None => look::look(work, &worktree).map(WorktreeResult::Found),
            })
        }
        Operation::Remove { worktree } => {
            exclusively(work, "remove", &worktree, |work| match &worktree.sandbox {
                Some(sandbox) => own::remove(work, &worktree, sandbox),
                None => remove::remove(work, &worktree),
            })
        }
        Operation::Discard { worktree, time } | Operation::GiveUp { worktree, time } => {
            exclusively(work, "discard", &worktree, |work| match &worktree.sandbox {
                Some(sandbox) => own::discard(work, &worktree, sandbox, time),
                None => discard::discard(work, &worktree, time),
            })
        }
        Operation::Prune { repository, before } => retired::prune(work, &repository, before),
        Operation::PruneCopies { folder, before } => copy::prune(&folder, before),
        Operation::Land { worktree, landing } => {
            exclusively(work, "land", &worktree, |work| land::land(work, &worktree, &landing))
        }
        Operation::Merge { worktree, landing } => {
            exclusively(work, "merge", &worktree, |work| land::files::merge(work, &worktree, &landing))
        }
        Operation::Recover { repository } => land::recover(work, &repository),
        Operation::Pack { worktree, is_new } => placed::there::pack(work, &worktree, is_new),
        Operation::Unpack { worktree, state, before, setup } => {
            placed::there::unpack(work, &worktree, &state, before.as_deref(), &setup)
        }
        Operation::Forget { worktree, state, time } => placed::there::forget(work, &worktree, &state, time),
    }
}
