//! Requests operations in an agent's repository from a process in the agent's sandbox.
//!
//! A result is trusted for this worktree only: programs chosen by the agent may have written it.

use std::ffi::OsString;
use std::io;
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};
use subagent_protocol::sandbox::Sandbox;
use subagent_protocol::time::Timestamp;
use subagent_protocol::worktree::{Contents, Landing, Setup, Worktree};
use subagent_protocol::{Code, Error};

use super::super::errors;
use super::super::work::OperationContext;
use crate::git;

/// The argument that starts this program inside a sandbox.
pub(in super::super) const INSIDE: &str = "inside";
/// Maximum length of an answer, which may be a patch, in bytes.
const MAX_ANSWER: usize = 512 * 1024 * 1024;

/// A request to the process inside.
#[derive(Debug, Serialize, Deserialize)]
pub(in super::super) struct InsideRequest {
    /// The worktree, with paths as seen from inside.
    pub(in super::super) worktree: Worktree,
    pub(in super::super) wish: InsideOperation,
}

/// The operation; each corresponds to one outside of a sandbox.
#[derive(Debug, Serialize, Deserialize)]
pub(in super::super) enum InsideOperation {
    Look,
    Setup { setup: Setup },
    Commit { landing: Box<Landing>, target: Option<BranchTip> },
    Commits { time: Timestamp },
    All { time: Timestamp },
    Check { checks: Vec<String>, commit: String },
    GoOn { commit: String },
    Patch,
}

/// A branch of the main repository as it is now. The worktree's copy dates from its creation.
#[derive(Debug, Serialize, Deserialize)]
pub(in super::super) struct BranchTip {
    pub(in super::super) branch: String,
    pub(in super::super) commit: String,
}

/// The result from inside the sandbox.
#[derive(Debug, Serialize, Deserialize)]
pub(in super::super) enum InsideResult {
    Contents(Contents),
    Commit(Option<String>),
    Patch(Vec<u8>),
    Done,
    Failed(Error),
}

/// Serializes a sandbox for the command line.
pub(super) fn text(sandbox: &Sandbox) -> String {
    serde_json::to_string(sandbox).unwrap_or_default()
}

/// Runs `subagent-runtime` inside the sandbox for a request.
pub(super) fn ask(
    work: &OperationContext<'_>,
    worktree: &Worktree,
    sandbox: &Sandbox,
    wish: InsideOperation,
) -> Result<InsideResult, Error> {
    let problem = |error: io::Error| errors::file(&worktree.path, &error);
    let request = InsideRequest { worktree: worktree.from_inside(), wish };
    let input = serde_json::to_vec(&request).map_err(|error| problem(error.into()))?;
    let program = work.runtime().map_err(problem)?;
    let own = ["worktree", INSIDE].map(OsString::from);
    let mut command = Command::new(&program);
    command.args(subagent_sandbox::arguments(&text(sandbox), None, program.as_os_str(), &own));
    command.env_clear().envs(work.env().iter().cloned()).current_dir(&worktree.path);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let (status, bytes, stderr) = git::run_program(command, &input, MAX_ANSWER, work.until(), work.held())?;
    match serde_json::from_slice(&bytes) {
        Ok(InsideResult::Failed(error)) => Err(cleaned(error)),
        Ok(result) if status.success() => Ok(result),
        _ => {
            let message = format!("the worktree {} cannot be inspected in its sandbox", worktree.name);
            let error =
                Error::new(Code::GitFailed, message).with("output", stderr).with("exitCode", status.code());
            Err(error.with("path", worktree.path.display().to_string()))
        }
    }
}

/// Cleans an error that the agent's programs may have written.
fn cleaned(error: Error) -> Error {
    Error { message: subagent_protocol::clean::one_line(&error.message), ..error }
}
