//! Runs one command of the user through `subagent-runtime command`. Must not know what the command
//! is for. Dropping the future, or killing the daemon, closes a pipe and so ends the command with
//! all its descendants.

use std::io;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use subagent_protocol::command_run::{CommandEnd, CommandResult, CommandRun};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::Command;

/// Time after the deadline in which the descendants are ended and the result arrives.
const MARGIN: Duration = Duration::from_secs(15);
/// Runs a command to its end, and ends all its descendants. `program` is `subagent-runtime`.
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
    // Not `kill_on_drop`: a killed process could not end its descendants. The end of its input
    // does.
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
    // The process ends by itself. After the result, no descendant is left.
    drop(stdin);
    result
}
