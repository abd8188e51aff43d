//! Tasks: their outcome, their names, and the message to the parent. A task goes on while its
//! worker has an open turn or queued messages. Must not decide which task gets a free slot. The
//! store counts rows for that.

use subagent_protocol::data::tasks::EndedTask;
use subagent_protocol::data::turns::TurnInput;
use subagent_protocol::ids::WorkerId;

use serde_json::{Value, json};
use subagent_protocol::api::{MAX_TASK_NAME_CHARS, TaskStatus};
use subagent_protocol::state::{QueuePause, TurnStatus};
use subagent_protocol::{Code, Error, Result};

pub mod limits;
pub mod result;
pub mod transcript;

use crate::model::{LastTurn, LifecycleState, TaskEnding, Worker};

/// Maximum length of a result in the message to the parent, in characters.
const MAX_REASON_CHARS: usize = 1_000;

/// Reason of a cancel without another reason.
const CANCELED: &str = "the task was canceled";

/// Returns the outcome of a worker's task, or `None` if the task goes on.
#[must_use]
pub fn outcome(worker: &Worker, ending: Option<TaskEnding>, last: Option<LastTurn>) -> Option<TaskStatus> {
    let queue = &worker.queue;
    let is_over = match worker.state {
        LifecycleState::Stopping(None) | LifecycleState::Stopped => true,
        // A restored queue waits for its owner. That is no failure.
        LifecycleState::Idle | LifecycleState::Error => {
            queue.turns.is_empty() || queue.paused.is_some_and(|reason| reason != QueuePause::Restored)
        }
        LifecycleState::Starting
        | LifecycleState::Turn(_)
        | LifecycleState::Local(_)
        | LifecycleState::Stopping(Some(_)) => false,
    };
    if !is_over {
        return None;
    }
    if let Some(ending) = ending {
        return Some(ending.status());
    }
    if matches!(worker.state, LifecycleState::Stopping(_) | LifecycleState::Stopped) {
        return Some(TaskStatus::Cancelled);
    }
    let waits = !queue.turns.is_empty();
    Some(match last {
        Some(LastTurn { lost: true, .. }) => TaskStatus::Lost,
        Some(LastTurn { status: TurnStatus::Completed, .. }) if !waits => TaskStatus::Completed,
        Some(LastTurn { status: TurnStatus::Canceled, .. }) => TaskStatus::Cancelled,
        // Its messages were dropped.
        None if !waits => TaskStatus::Cancelled,
        Some(_) | None => TaskStatus::Failed,
    })
}

/// Returns the first `chars` characters of a text.
#[must_use]
pub fn beginning(text: &str, chars: usize) -> &str {
    text.char_indices().nth(chars).map_or(text, |(end, _)| &text[..end])
}

/// Returns the message to the parent about the end of a background task.
#[must_use]
pub fn end_message(
    name: &str,
    id: &WorkerId,
    status: TaskStatus,
    result: &str,
    error: Option<&Error>,
) -> String {
    let how = match status {
        TaskStatus::Completed => "completed",
        TaskStatus::Cancelled => "cancelled",
        TaskStatus::MaxIterationsReached => "reached its step limit",
        TaskStatus::TimedOut => "timed out",
        TaskStatus::Lost => "lost",
        _ => "failed",
    };
    let why = match (status, error) {
        (TaskStatus::Completed, _) => result.to_owned(),
        (_, Some(error)) => error.to_string(),
        (TaskStatus::Failed, None) => "it could not be begun".to_owned(),
        (_, None) => return format!("[Subagent '{name}' ({id}) {how}]"),
    };
    format!("[Subagent '{name}' ({id}) {how}: {}]", beginning(&why, MAX_REASON_CHARS))
}

/// Returns the status and the error of an ended task. `cause` is why its run had to end early,
/// `canceled` why its last turn was canceled.
///
/// A violation fails a task even if the agent completed it before the violation was noticed.
#[must_use]
pub fn explained(
    outcome: TaskStatus,
    cause: Option<Error>,
    canceled: Option<String>,
) -> (TaskStatus, Option<Error>) {
    match outcome {
        TaskStatus::Completed => match cause {
            Some(cause) if cause.code == Code::PolicyViolation => (TaskStatus::Failed, Some(cause)),
            _ => (outcome, None),
        },
        TaskStatus::Cancelled | TaskStatus::MaxIterationsReached | TaskStatus::TimedOut => {
            let canceled = || Error::new(Code::Cancelled, canceled.unwrap_or_else(|| CANCELED.to_owned()));
            (outcome, Some(cause.unwrap_or_else(canceled)))
        }
        _ => (outcome, None),
    }
}

/// Returns the message to the parent: data of `message.sent`, and the input in `turn.started`.
#[must_use]
pub fn delivery(text: &str, name: &str, id: &WorkerId, status: TaskStatus) -> (Value, TurnInput) {
    let subagent = EndedTask { subagent_id: id.clone(), name: name.to_owned(), status };
    let message = json!({"text": text, "blocks": [], "subagent": subagent});
    (message, TurnInput { text: text.to_owned(), blocks_count: 0, subagent: Some(subagent) })
}

/// Returns the form in which names are compared.
#[must_use]
pub fn folded(name: &str) -> String {
    name.to_lowercase()
}

/// Validates the name of a task.
///
/// # Errors
/// `INVALID_ARGUMENT{field}`.
pub fn check_name(name: &str) -> Result<()> {
    let wrong = match name {
        "" => "is empty",
        _ if name.trim() != name => "begins or ends with a space",
        _ if name.chars().any(char::is_control) => "has control characters in it",
        _ if name.chars().count() > MAX_TASK_NAME_CHARS => "is too long",
        _ => return Ok(()),
    };
    let message = format!("the name of a task {wrong}; it has 1 to {MAX_TASK_NAME_CHARS} characters");
    Err(Error::new(Code::InvalidArgument, message).with("field", "name"))
}

/// Derives an unused name from a description.
#[must_use]
pub fn made_name(description: &str, taken: impl Fn(&str) -> bool) -> String {
    let words: Vec<&str> = description.split(|c: char| c.is_whitespace() || c.is_control()).collect();
    let text = words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
    let base = match beginning(&text, MAX_TASK_NAME_CHARS).trim_end() {
        "" => "task",
        base => base,
    };
    let numbered = |number: u32| {
        let ending = format!("-{number}");
        let room = MAX_TASK_NAME_CHARS - ending.len();
        format!("{}{ending}", beginning(base, room).trim_end())
    };
    let mut names = std::iter::once(base.to_owned()).chain((2..=u32::MAX).map(numbered));
    names.find(|name| !taken(name)).unwrap_or_default()
}
