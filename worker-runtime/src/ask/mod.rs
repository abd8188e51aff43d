//! `subagent-runtime ask`: starts an agent, asks it one question and ends it. Needs no worker,
//! journal or daemon. Leaves no process: the agent runs below a guard like a worker's agent. Every
//! request has a deadline. End of standard input ends everything.

mod driver;
mod machine;
mod methods;
mod requests;
#[cfg(test)]
mod tests;

use std::io::{self, BufRead as _, Read as _};

use subagent_protocol::ask::AgentQuery;
use subagent_protocol::{MAX_LINE_BYTES, OLDEST_PROTOCOL};

use crate::startup;

/// Reads the question, asks it, and writes the answer.
///
/// # Errors
///
/// It could not begin; in this case nothing was started.
pub(crate) fn run() -> io::Result<()> {
    startup::become_own_process()?;
    let ask = read()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
    runtime.block_on(driver::run(ask))
}

/// Reads the first line. After it, only the end of the input matters.
fn read() -> io::Result<AgentQuery> {
    let mut line = Vec::new();
    let max = u64::try_from(MAX_LINE_BYTES).unwrap_or(u64::MAX);
    io::stdin().lock().take(max).read_until(b'\n', &mut line)?;
    let invalid = |message: String| io::Error::new(io::ErrorKind::InvalidData, message);
    // Serde quotes its input, which may be a secret. The error names only the position.
    let ask: AgentQuery = serde_json::from_slice(&line)
        .map_err(|error| invalid(format!("standard input is not a question (column {})", error.column())))?;
    if ask.protocol < OLDEST_PROTOCOL {
        return Err(invalid(format!(
            "the command line speaks protocol {}: use binaries of the same version",
            ask.protocol
        )));
    }
    Ok(ask)
}
