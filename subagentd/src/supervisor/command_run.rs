//! Runs one command of the user, through `subagent-runtime command`.
//!
//! Must not know what the command is for. A future that is dropped closes the pipe that keeps the command alive: so a
//! command that is not waited for any more, and one of a daemon that is killed, end with everything that they started.

use std::io;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use subagent_protocol::command_run::{CommandEnd, CommandResult, CommandRun};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::Command;

/// The time beyond the deadline in which the descendants are ended and the result arrives.
const MARGIN: Duration = Duration::from_secs(15);
/// Runs a command to its end, and ends all that it started. `program` is `subagent-runtime`.
pub(crate) async fn run(program: &Path, run: CommandRun) -> CommandResult {
    let limit = Duration::from_millis(run.timeout_ms).saturating_add(MARGIN);
    let end = match tokio::time::timeout(limit, attempt(program, &run)).await {
        Ok(Ok(result)) => return result,
        Ok(Err(error)) => CommandEnd::NotStarted { error: error.to_string() },
        Err(_) => {
            tracing::warn!(?limit, "a command's end was not reported in time");
            CommandEnd::TimedOut
        }
    };
    CommandResult { end, stdout: String::new(), stderr: String::new(), truncated: false }
}

async fn attempt(program: &Path, run: &CommandRun) -> io::Result<CommandResult> {
    let mut line = serde_json::to_vec(run).map_err(io::Error::other)?;
    line.push(b'\n');
    subagent_failpoint::check("command.before_start")?;
    // Not `kill_on_drop`: a process that is killed could not end what is below it. The end of its input does.
    let mut child = Command::new(program)
        .arg("command")
        .current_dir("/")
        .env_clear()
        .envs(subagent_failpoint::armed_with())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()?;
    subagent_failpoint::hit("command.after_start");
    let closed = || io::Error::other("it has no standard input or output");
    let mut stdin = child.stdin.take().ok_or_else(closed)?;
    let stdout = child.stdout.take().ok_or_else(closed)?;
    stdin.write_all(&line).await?;
    let mut answer = Vec::new();
    BufReader::new(stdout).read_until(b'\n', &mut answer).await?;
    let result = serde_json::from_slice(&answer)
        .map_err(|error| io::Error::other(format!("the command's result is not readable: {error}")));
    // It ends by itself, and after the result nothing is left to end.
    drop(stdin);
    result
}
