//! Has something done in the repository of an agent, by a process in the agent's sandbox.
//!
//! An answer is believed of this worktree alone: programs that the agent has named may have written it.

use std::ffi::OsString;
use std::io;
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};
use subagent_protocol::sandbox::Sandbox;
use subagent_protocol::time::Timestamp;
use subagent_protocol::worktree::{Contents, Landing, Setup, Worktree};
use subagent_protocol::{Code, Error};

use super::super::errors;
use super::super::work::Work;
use crate::git;

/// The word with which this program is started inside of a sandbox.
pub(in super::super) const INSIDE: &str = "inside";
/// The longest answer: a patch.
const MAX_ANSWER: usize = 512 * 1024 * 1024;

/// What is asked for.
#[derive(Debug, Serialize, Deserialize)]
pub(in super::super) struct Request {
    /// As it is seen from inside.
    pub(in super::super) worktree: Worktree,
    pub(in super::super) wish: Wish,
}

/// One operation; each is one of the worktree outside of a sandbox too.
#[derive(Debug, Serialize, Deserialize)]
pub(in super::super) enum Wish {
    Look,
    Setup { setup: Setup },
    Commit { landing: Box<Landing>, target: Option<Target> },
    Commits { time: Timestamp },
    All { time: Timestamp },
    Check { checks: Vec<String>, commit: String },
    GoOn { commit: String },
    Patch,
}

/// A branch of the main repository as it is now: that of the worktree is as it was when it was made.
#[derive(Debug, Serialize, Deserialize)]
pub(in super::super) struct Target {
    pub(in super::super) branch: String,
    pub(in super::super) commit: String,
}

/// The answer.
#[derive(Debug, Serialize, Deserialize)]
pub(in super::super) enum Said {
    Contents(Contents),
    Commit(Option<String>),
    Patch(Vec<u8>),
    Done,
    Failed(Error),
}

/// A sandbox as an argument.
pub(super) fn text(sandbox: &Sandbox) -> String {
    serde_json::to_string(sandbox).unwrap_or_default()
}

/// Has it done by `subagent-runtime`, inside.
pub(super) fn ask(
    work: &Work<'_>,
    worktree: &Worktree,
    sandbox: &Sandbox,
    wish: Wish,
) -> Result<Said, Error> {
    let problem = |error: io::Error| errors::file(&worktree.path, &error);
    let request = Request { worktree: worktree.from_inside(), wish };
    let input = serde_json::to_vec(&request).map_err(|error| problem(error.into()))?;
    let program = work.runtime().map_err(problem)?;
    let own = ["worktree", INSIDE].map(OsString::from);
    let mut command = Command::new(&program);
    command.args(subagent_sandbox::arguments(&text(sandbox), program.as_os_str(), &own));
    command.env_clear().envs(work.env().iter().cloned()).current_dir(&worktree.path);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let (status, bytes, said) = git::heard(command, &input, MAX_ANSWER, work.until(), work.held())?;
    match serde_json::from_slice(&bytes) {
        Ok(Said::Failed(error)) => Err(cleaned(error)),
        Ok(said) if status.success() => Ok(said),
        _ => {
            let message = format!("the worktree {} cannot be looked at in its sandbox", worktree.name);
            let error =
                Error::new(Code::GitFailed, message).with("output", said).with("exitCode", status.code());
            Err(error.with("path", worktree.path.display().to_string()))
        }
    }
}

/// Programs of the agent may have written it.
fn cleaned(error: Error) -> Error {
    Error { message: subagent_protocol::clean::one_line(&error.message), ..error }
}
