//! `subagent-runtime ask`: an agent is started, asked something, and ended, without a worker, a journal or a daemon.
//!
//! Must leave nothing: the agent runs below a guard as a worker's does, every request has a deadline, and when nobody
//! holds the standard input any more everything is ended.

mod driver;
mod machine;
mod methods;
mod requests;
#[cfg(test)]
mod tests;

use std::io::{self, BufRead as _, Read as _};

use subagent_protocol::ask::Ask;
use subagent_protocol::{MAX_LINE_BYTES, OLDEST_PROTOCOL};

use crate::startup;

/// Reads what to ask, asks it, and tells what came of it.
///
/// # Errors
/// When it could not begin: nothing was started then.
pub(crate) fn run() -> io::Result<()> {
    startup::become_own_process()?;
    let ask = read()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
    runtime.block_on(driver::run(ask))
}

/// Reads the first line. What follows it is the end of the input alone.
fn read() -> io::Result<Ask> {
    let mut line = Vec::new();
    let most = u64::try_from(MAX_LINE_BYTES).unwrap_or(u64::MAX);
    io::stdin().lock().take(most).read_until(b'\n', &mut line)?;
    let invalid = |message: String| io::Error::new(io::ErrorKind::InvalidData, message);
    // Serde quotes what it read, and that may be a secret: only the place is told.
    let ask: Ask = serde_json::from_slice(&line)
        .map_err(|error| invalid(format!("standard input is no question (column {})", error.column())))?;
    if ask.protocol < OLDEST_PROTOCOL {
        return Err(invalid(format!(
            "the command line speaks protocol {}: use binaries of one version",
            ask.protocol
        )));
    }
    Ok(ask)
}
