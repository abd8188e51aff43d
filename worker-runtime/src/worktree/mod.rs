//! `subagent-runtime worktree`: one operation on a git worktree, see [`subagent_protocol::worktree`].
//!
//! Must not know workers, and must not lose a byte: what it removes is in a commit that a ref keeps.

use std::io::{self, Read as _, Write as _};

use subagent_protocol::worktree::{Answer, Operation};
use subagent_protocol::{Code, Error};

/// Reads an operation from the standard input, carries it out, and writes the answer.
///
/// # Errors
/// When the input is no operation, or the answer cannot be written.
pub(crate) fn run() -> io::Result<()> {
    let mut text = Vec::new();
    let _ = io::stdin().lock().read_to_end(&mut text)?;
    let operation: Operation = serde_json::from_slice(&text).map_err(io::Error::other)?;
    let env: Vec<_> = std::env::vars_os().collect();
    let answer = answer(operation, &env);
    let mut line = serde_json::to_vec(&answer).map_err(io::Error::other)?;
    line.push(b'\n');
    io::stdout().write_all(&line)
}

fn answer(operation: Operation, _env: &[(std::ffi::OsString, std::ffi::OsString)]) -> Answer {
    Answer::Failed(Error::new(Code::Internal, format!("not built: {operation:?}")))
}
