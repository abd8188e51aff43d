//! `subagent-runtime command`: runs one command of the user with a deadline and leaves no process
//! of it. Must not start a thread or an async runtime (it reaps every child), nor interpret the
//! output.

// Reads one line of JSON, a [`CommandRun`], and writes one, a [`CommandResult`]. The caller keeps
// standard input open while it wants the result. End of input ends the command and everything it
// started.

mod output;
mod running;

use std::io::{self, Read, Write};
use std::time::Duration;

use nix::sys::prctl;
use subagent_protocol::command_run::{CommandEnd, CommandResult, CommandRun};

use self::running::CommandOutcome;
use crate::guard::{self, signals};

/// Duration of one attempt to end the descendants, before the result is written.
const END_ROUND: Duration = Duration::from_secs(5);

/// Runs the command described on standard input.
///
/// # Errors
///
/// The input is not a command, or the system refuses what is needed to end a process tree.
/// Nothing was started then.
pub(crate) fn run() -> io::Result<()> {
    let run: CommandRun = serde_json::from_slice(&read_line()?).map_err(io::Error::other)?;
    prctl::set_child_subreaper(true)?;
    // A signal must not end this process before its process tree.
    let signals = signals::take_over()?;
    subagent_failpoint::hit("command.before_spawn");
    let outcome = match running::RunningCommand::start(&run) {
        Ok(running) => {
            subagent_failpoint::hit("command.after_spawn");
            running.until_end(&signals)
        }
        Err(error) => CommandOutcome::Ended(CommandResult {
            end: CommandEnd::NotStarted { error },
            stdout: String::new(),
            stderr: String::new(),
            truncated: false,
        }),
    };
    if let CommandOutcome::Ended(result) = outcome {
        let mut line = serde_json::to_vec(&result).map_err(io::Error::other)?;
        line.push(b'\n');
        // A write error means that the caller is gone and needs no result.
        let _ = io::stdout().write_all(&line).and_then(|()| io::stdout().flush());
    }
    // A process blocked in the kernel can survive the first round. This process stays
    // until all are gone.
    while !guard::end_descendants(END_ROUND, &[]).clean {}
    Ok(())
}

/// Reads the first line of standard input.
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
