//! The rules of tasks: what a worker's task has come to, what it is called, and what its parent is told.
//!
//! A task goes on as long as its worker has an open turn or something waits for it. Which task may have its turn is not
//! decided here: that is a count of rows.

use serde_json::{Value, json};
use subagent_protocol::api::{MAX_TASK_NAME_CHARS, TaskStatus};
use subagent_protocol::event::EventType;
use subagent_protocol::ids::{TurnId, WorkerId};
use subagent_protocol::state::{QueuePause, TurnStatus};
use subagent_protocol::{Code, Error, Result};

use super::step::Next;
use super::worker::{Fact, State, Worker};

/// Of a result a parent is told so many characters.
const TOLD_CHARS: usize = 1_000;
/// Why a task was canceled where nobody gave a reason.
const CANCELED: &str = "the task was canceled";

/// Why a task is ended from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskEnding {
    /// Somebody does not want it any more.
    Cancelled,
    /// It has made as many tool calls as it may.
    MaxIterationsReached,
    /// It has run for as long as it may.
    TimedOut,
}

impl TaskEnding {
    /// What the task comes to.
    #[must_use]
    pub const fn status(self) -> TaskStatus {
        match self {
            Self::Cancelled => TaskStatus::Cancelled,
            Self::MaxIterationsReached => TaskStatus::MaxIterationsReached,
            Self::TimedOut => TaskStatus::TimedOut,
        }
    }

    /// The code of the error that says why.
    const fn code(self) -> Code {
        match self {
            Self::Cancelled => Code::Cancelled,
            Self::MaxIterationsReached => Code::MaxIterationsReached,
            Self::TimedOut => Code::TimedOut,
        }
    }

    /// The one with this word.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        let all = [Self::Cancelled, Self::MaxIterationsReached, Self::TimedOut];
        all.into_iter().find(|ending| ending.status().as_str() == word)
    }
}

/// How the last turn of a task's present run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LastTurn {
    /// Its status.
    pub status: TurnStatus,
    /// Whether its runtime was lost.
    pub lost: bool,
}

/// What the task of this worker has come to; `None`: it goes on.
#[must_use]
pub fn outcome(worker: &Worker, ending: Option<TaskEnding>, last: Option<LastTurn>) -> Option<TaskStatus> {
    let queue = &worker.queue;
    let is_over = match worker.state {
        State::Stopping(None) | State::Stopped => true,
        // After a restore nobody has failed: its owner has what waits go on.
        State::Idle | State::Error => {
            queue.turns.is_empty() || queue.paused.is_some_and(|reason| reason != QueuePause::Restored)
        }
        State::Starting | State::Turn(_) | State::Local(_) | State::Stopping(Some(_)) => false,
    };
    if !is_over {
        return None;
    }
    if let Some(ending) = ending {
        return Some(ending.status());
    }
    if matches!(worker.state, State::Stopping(_) | State::Stopped) {
        return Some(TaskStatus::Cancelled);
    }
    let waits = !queue.turns.is_empty();
    Some(match last {
        Some(LastTurn { lost: true, .. }) => TaskStatus::Lost,
        Some(LastTurn { status: TurnStatus::Completed, .. }) if !waits => TaskStatus::Completed,
        Some(LastTurn { status: TurnStatus::Canceled, .. }) => TaskStatus::Cancelled,
        // What it was given was taken away from it.
        None if !waits => TaskStatus::Cancelled,
        Some(_) | None => TaskStatus::Failed,
    })
}

/// The event that tells of an end.
#[must_use]
pub const fn event_of(outcome: TaskStatus) -> EventType {
    match outcome {
        TaskStatus::Completed => EventType::SubagentCompleted,
        TaskStatus::Cancelled => EventType::SubagentCancelled,
        _ => EventType::SubagentFailed,
    }
}

/// The beginning of a text.
#[must_use]
pub fn beginning(text: &str, chars: usize) -> &str {
    text.char_indices().nth(chars).map_or(text, |(end, _)| &text[..end])
}

/// What the end of a background task is told to its parent as.
#[must_use]
pub fn told(name: &str, id: &WorkerId, status: TaskStatus, result: &str, error: Option<&Error>) -> String {
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
    format!("[Subagent '{name}' ({id}) {how}: {}]", beginning(&why, TOLD_CHARS))
}

/// The status and the error of a task that has ended, from its last turn, with what was noticed of it besides: `cause` is why
/// its run was to end early, `canceled` why its last turn was.
///
/// A violation fails a task that its agent ended well before it was noticed.
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

/// The message that tells it: data of `message.sent`, and of `turn.started` without the turn.
#[must_use]
pub fn delivery(text: &str, name: &str, id: &WorkerId, status: TaskStatus) -> (Value, Value) {
    let subagent = json!({"subagentId": id, "name": name, "status": status});
    let message = json!({"text": text, "blocks": [], "subagent": subagent});
    (message, json!({"text": text, "blocksCount": 0, "subagent": subagent}))
}

/// A name as it is compared.
#[must_use]
pub fn folded(name: &str) -> String {
    name.to_lowercase()
}

/// Whether somebody can call a task so.
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

/// A name made of a description, which nobody else has.
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

impl Next {
    /// Ends the task of the worker: what waits is dropped, and the open turn is canceled.
    pub(super) fn end_task(&mut self, ending: TaskEnding, reason: &str) -> Result<()> {
        if matches!(self.worker.state, State::Stopping(_) | State::Stopped) {
            return Ok(());
        }
        let turn = self.worker.turn().map(|turn| turn.no);
        self.facts.push(Fact::TaskEnding(ending));
        self.facts.push(Fact::TaskCause { error: Error::new(ending.code(), reason), turn });
        self.drop_for_good(reason);
        match self.worker.state {
            State::Turn(_) | State::Local(_) => self.cancel(reason.to_owned()),
            _ => Ok(()),
        }
    }

    /// Adds to a message that waits.
    pub(super) fn append_queued(&mut self, turn_id: TurnId, text: String) -> Result<()> {
        self.waits(&turn_id)?;
        self.facts.push(Fact::QueuedAppended { id: turn_id, text });
        Ok(())
    }
}
