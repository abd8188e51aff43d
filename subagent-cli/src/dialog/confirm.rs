//! A yes or no of the person at the terminal.

use std::io::{self, BufRead as _, IsTerminal as _};

use subagent_protocol::Code;

use crate::failure::{Failure, Result};
use crate::output::write_stderr;

/// Whether a person can be asked.
///
/// # Errors
/// `TERMINAL_REQUIRED` without a terminal. `what` needs the answer.
pub(crate) fn needs_terminal(what: &str) -> Result<()> {
    if io::stdin().is_terminal() && io::stderr().is_terminal() {
        return Ok(());
    }
    let message = format!("{what} needs an answer, and there is no terminal to ask at");
    Err(Failure::new(Code::TerminalRequired, message))
}

/// Asks a question. Anything but `y` and `yes` is a no.
pub(crate) fn says_yes(question: &str) -> bool {
    write_stderr(&format!("{question} [y/N] "));
    let mut answer = String::new();
    let read = io::stdin().lock().read_line(&mut answer);
    read.is_ok() && matches!(answer.trim().to_lowercase().as_str(), "y" | "yes")
}
