//! One operation on a worktree, carried out by `subagent-runtime worktree` in a process of its own.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::Path;
use std::time::Duration;

use subagent_config::user_command;
use subagent_protocol::command_run::{CommandEnd, CommandRun};
use subagent_protocol::worktree::{Operation, WorktreeResult};
use subagent_protocol::{Code, Error, Result};

use crate::supervisor::command_run;
use crate::supervisor::shared::SupervisorState;
use crate::supervisor::start::environment::Variables;

/// How long one that runs no command of the user may take: a large checkout on a slow disk.
pub(super) const GIT_TIMEOUT: Duration = Duration::from_secs(5 * 60);
/// How long one may take that runs setup commands or checks.
pub(in crate::supervisor) const COMMANDS_TIMEOUT: Duration = Duration::from_secs(30 * 60);
/// The longest answer: a list of all files of a large repository.
const MAX_ANSWER_BYTES: usize = 64 * 1024 * 1024;
/// Of the daemon's own variables those that stand in for ones that the caller did not send.
const STAND_IN: [&str; 5] = ["PATH", "HOME", "USER", "XDG_CONFIG_HOME", "SSH_AUTH_SOCK"];

/// Carries out an operation with these variables.
///
/// # Errors
/// The operation's own; `GIT_FAILED` if it does not end in time, `BACKEND_RUNTIME_ERROR` if it cannot be run.
pub(super) async fn run(
    shared: &SupervisorState,
    operation: &Operation,
    env: &Variables,
) -> Result<WorktreeResult> {
    let program = &shared.setup.runtime_program;
    let timeout = timeout(operation);
    let failed = |problem: String| {
        let message = format!("subagent-runtime could not manage a worktree: {problem}");
        Error::new(Code::BackendRuntimeError, message).recommend("see the daemon's log")
    };
    let stdin = serde_json::to_string(operation).map_err(|error| failed(error.to_string()))?;
    let argv = vec![program.display().to_string(), "worktree".to_owned()];
    let millis = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
    let run = CommandRun {
        max_output_bytes: MAX_ANSWER_BYTES,
        ..user_command::of(argv, Path::new("/"), variables(env), stdin, millis)
    };
    let result = command_run::run(program, run).await;
    match result.end {
        CommandEnd::Exited { code: 0 } => match serde_json::from_str(&result.stdout) {
            Ok(WorktreeResult::Failed(error)) => Err(error),
            Ok(answer) => Ok(answer),
            Err(error) => Err(failed(error.to_string())),
        },
        CommandEnd::TimedOut => {
            let message = format!("git did not finish within {} minutes", timeout.as_secs() / 60);
            Err(Error::new(Code::GitFailed, message).retryable())
        }
        CommandEnd::Exited { code } => {
            Err(failed(format!("it exited with {code}: {}", result.stderr.trim())))
        }
        CommandEnd::Signaled { signal } => Err(failed(format!("it was ended by signal {signal}"))),
        CommandEnd::NotStarted { error } => Err(failed(error)),
    }
}

/// The error for an answer that does not belong to the operation.
pub(super) fn unexpected(answer: &WorktreeResult) -> Error {
    Error::new(Code::Internal, format!("an operation on a worktree has another answer: {answer:?}"))
}

fn timeout(operation: &Operation) -> Duration {
    match operation {
        Operation::Create { .. } | Operation::Setup { .. } | Operation::Land { .. } => COMMANDS_TIMEOUT,
        _ => GIT_TIMEOUT,
    }
}

fn variables(env: &Variables) -> impl Iterator<Item = (OsString, OsString)> {
    let of_caller = env
        .iter()
        .map(|(name, value)| (OsString::from_vec(name.0.clone()), OsString::from_vec(value.0.clone())));
    let is_missing = |name: &&str| !env.iter().any(|(known, _)| known.0 == name.as_bytes());
    let stand_in = STAND_IN.into_iter().filter(is_missing);
    let own = stand_in.filter_map(|name| Some((OsString::from(name), std::env::var_os(name)?)));
    own.collect::<Vec<_>>().into_iter().chain(of_caller)
}
