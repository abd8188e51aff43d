//! Commands that triggers watch: runs each in its interval, outside of any worker, and stores its
//! output. Must not hold up the owner: a run is a task of its own with a deadline.

use std::collections::HashSet;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use sha2::{Digest as _, Sha256};
use subagent_config::user_command;
use subagent_protocol::clean::one_line;
use subagent_protocol::command_run::{CommandEnd, CommandResult};
use subagent_protocol::ids::hex;
use subagent_protocol::time::Timestamp;
use subagent_protocol::trigger::MAX_PAYLOAD_BYTES;
use subagent_protocol::{Code, Error, Result};
use tokio::sync::Semaphore;

use super::context::{STORE_RETRY, ScheduleContext};
use crate::store::schedules::ScheduleRow;
use crate::store::schedules::trigger_sources::{self, Observation};
use crate::store::{Durability, RowId, Tx};
use crate::supervisor::{command_run, entropy};

/// Commands that run at the same time.
const MAX_RUNNING: usize = 8;
/// Maximum length of standard error in an error, in characters.
const MAX_REASON_CHARS: usize = 500;
/// Bytes of the longest character: the end of a truncated output.
const MAX_CHAR: usize = 4;

/// The runs that have not ended.
pub(super) struct Runs {
    /// Keys and times of creation of their triggers: a key is used again after a removal.
    running: Mutex<HashSet<(RowId, Timestamp)>>,
    permits: Semaphore,
}

impl Default for Runs {
    fn default() -> Self {
        Self { running: Mutex::default(), permits: Semaphore::new(MAX_RUNNING) }
    }
}

/// A command line and its limits.
pub(super) struct WatchedCommand<'a> {
    pub(super) line: &'a str,
    pub(super) cwd: &'a Path,
    pub(super) every_seconds: u64,
    pub(super) timeout_seconds: u64,
}

/// When the command of a trigger runs next: now if it has not run yet, and after the clock went
/// back.
pub(super) fn next_run(row: &ScheduleRow, every_seconds: u64, now: Timestamp) -> Timestamp {
    if row.cursor.0 <= 0 || row.cursor > now {
        return now;
    }
    let millis = i64::try_from(every_seconds.saturating_mul(1000)).unwrap_or(i64::MAX);
    Timestamp(row.cursor.0.saturating_add(millis).max(now.0))
}

/// Runs the command if it is due. Returns the next time; `None` while it runs.
pub(super) fn look_at(
    context: &Arc<ScheduleContext>,
    runs: &Arc<Runs>,
    row: &ScheduleRow,
    command: &WatchedCommand<'_>,
    now: Timestamp,
) -> Option<Timestamp> {
    let next = next_run(row, command.every_seconds, now);
    if next > now {
        return Some(next);
    }
    let key = (row.id, row.created_at);
    if !runs.running.lock().unwrap_or_else(PoisonError::into_inner).insert(key) {
        return None;
    }
    let environment = context.environment.vars.iter().map(|(name, value)| (name.clone(), value.clone()));
    let timeout_ms = command.timeout_seconds.saturating_mul(1000);
    let argv = user_command::shell(command.line);
    let run = user_command::of(argv, command.cwd, environment, String::new(), timeout_ms);
    let (context, runs, row) = (Arc::clone(context), Arc::clone(runs), row.clone());
    let timeout_seconds = command.timeout_seconds;
    tokio::spawn(async move {
        let result = async {
            // The semaphore is never closed.
            let _permit = runs.permits.acquire().await;
            command_run::run(&context.runtime_program, run).await
        };
        // The end of the daemon ends the command.
        let result = tokio::select! {
            () = context.stream.is_ending() => return,
            result = result => result,
        };
        subagent_failpoint::hit("observation.before_store");
        if let Err(error) = store(&context, row.clone(), observation(result, timeout_seconds)).await {
            tracing::error!(trigger = row.name, %error, "the output of a command cannot be stored; it runs again");
            tokio::time::sleep(STORE_RETRY).await;
        }
        subagent_failpoint::hit("observation.after_store");
        runs.running.lock().unwrap_or_else(PoisonError::into_inner).remove(&key);
        context.changed.notify_one();
    });
    None
}

async fn store(context: &ScheduleContext, row: ScheduleRow, found: Observation) -> Result<()> {
    let now = entropy::now();
    let write = move |tx: &mut Tx<'_>| trigger_sources::store_observation(tx, &row, &found, now);
    if let Some((worker, seq)) = context.stream.store.write(Durability::Full, 1, write).await? {
        context.stream.noted(worker, seq);
    }
    Ok(())
}

fn observation(result: CommandResult, timeout_seconds: u64) -> Observation {
    let CommandResult { end, stdout, stderr, truncated } = result;
    let problem = match end {
        CommandEnd::Exited { code: 0 } if truncated && stdout.len() + MAX_CHAR > MAX_PAYLOAD_BYTES => {
            format!("the command wrote more than {MAX_PAYLOAD_BYTES} bytes")
        }
        CommandEnd::Exited { code: 0 } => {
            let sha256 = hex(&Sha256::digest(stdout.as_bytes()));
            // Characters that replace invalid bytes make a text longer.
            let text = stdout[..stdout.floor_char_boundary(MAX_PAYLOAD_BYTES)].replace('\0', "\u{fffd}");
            return Observation::Output { text, sha256 };
        }
        CommandEnd::Exited { code } => format!("the command failed with exit status {code}"),
        CommandEnd::Signaled { signal } => format!("the command was ended by signal {signal}"),
        CommandEnd::TimedOut => format!("the command took longer than {timeout_seconds} s and was ended"),
        CommandEnd::NotStarted { error } => format!("the command was not started: {error}"),
    };
    let reported: String = one_line(stderr.trim()).chars().take(MAX_REASON_CHARS).collect();
    let message = if reported.is_empty() { problem } else { format!("{problem}: {reported}") };
    Observation::Failed(Error::new(Code::CommandFailed, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(end: CommandEnd, stdout: &str, truncated: bool) -> Observation {
        let stderr = "no\u{1b}[2J such\nhost".to_owned();
        observation(CommandResult { end, stdout: stdout.to_owned(), stderr, truncated }, 7)
    }

    fn problem(found: Observation) -> String {
        match found {
            Observation::Failed(error) => error.message,
            Observation::Output { text, .. } => panic!("{text}"),
        }
    }

    #[test]
    fn only_an_output_that_is_whole_is_compared() {
        let Observation::Output { text, sha256 } = of(CommandEnd::Exited { code: 0 }, "a\0b\n", false) else {
            panic!("an output")
        };
        assert_eq!((text.as_str(), sha256.len()), ("a\u{fffd}b\n", 64));
        let long = "x".repeat(MAX_PAYLOAD_BYTES);
        assert!(problem(of(CommandEnd::Exited { code: 0 }, &long, true)).contains("more than 65536 bytes"));
        // Standard error alone may be long.
        assert!(matches!(of(CommandEnd::Exited { code: 0 }, "a", true), Observation::Output { .. }));
        let failed = problem(of(CommandEnd::Exited { code: 3 }, "a", false));
        assert!(failed.contains("exit status 3: no") && !failed.contains(['\u{1b}', '\n']), "{failed}");
        assert!(problem(of(CommandEnd::TimedOut, "a", true)).contains("longer than 7 s"));
    }
}
