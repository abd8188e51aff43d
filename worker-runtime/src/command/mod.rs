//! `subagent-runtime command`: runs one command of the user with a deadline, and leaves no process of it.
//!
//! It reads one line of JSON, a [`CommandRun`], and writes one, a [`CommandResult`]. Its standard input stays open as long
//! as the caller wants the result: at its end the command is ended too, with everything that it started.
//!
//! Must not start a thread or an async runtime (it reaps every child), or interpret what the command says.

mod output;
mod running;

use std::io::{self, Read, Write};
use std::time::Duration;

use nix::sys::prctl;
use subagent_protocol::command_run::{CommandEnd, CommandResult, CommandRun};

use self::running::Outcome;
use crate::guard::{self, signals};

/// How long one attempt to end the descendants takes before the caller hears of the result.
const END_ROUND: Duration = Duration::from_secs(5);

/// Runs the command of this process' standard input to its end.
///
/// # Errors
/// When the input is no command, or the system refuses what is needed to end a process tree; nothing was started then.
pub(crate) fn run() -> io::Result<()> {
    let run: CommandRun = serde_json::from_slice(&read_line()?).map_err(io::Error::other)?;
    prctl::set_child_subreaper(true)?;
    // A signal must not end this process before its tree.
    let signals = signals::take_over()?;
    subagent_failpoint::hit("command.before_spawn");
    let outcome = match running::Running::start(&run) {
        Ok(running) => {
            subagent_failpoint::hit("command.after_spawn");
            running.until_end(&signals)
        }
        Err(error) => Outcome::Ended(CommandResult {
            end: CommandEnd::NotStarted { error },
            stdout: String::new(),
            stderr: String::new(),
            truncated: false,
        }),
    };
    if let Outcome::Ended(result) = outcome {
        let mut line = serde_json::to_vec(&result).map_err(io::Error::other)?;
        line.push(b'\n');
        // A caller that is gone needs no result.
        let _ = io::stdout().write_all(&line).and_then(|()| io::stdout().flush());
    }
    // A process in the kernel may withstand the first round. This one stays until all are gone.
    while !guard::end_descendants(END_ROUND, &[]).clean {}
    Ok(())
}

/// The first line of the standard input.
fn read_line() -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    let mut bytes = vec![0; 64 * 1024];
    let mut stdin = io::stdin().lock();
    loop {
        match stdin.read(&mut bytes) {
            Ok(0) => {
                let message = "expected one line of JSON on standard input, which stays open";
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, message));
            }
            Ok(length) => {
                line.extend_from_slice(&bytes[..length]);
                if let Some(end) = memchr::memchr(b'\n', &line) {
                    line.truncate(end);
                    return Ok(line);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
