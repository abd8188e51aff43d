//! How a task ends.

use subagent_protocol::Code;
use subagent_protocol::api::TaskStatus;
use subagent_protocol::state::TurnStatus;

/// Why a task is ended from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskEnding {
    /// A client canceled the task.
    Cancelled,
    /// It reached its maximum number of tool calls.
    MaxIterationsReached,
    /// It reached its time limit.
    TimedOut,
}

impl TaskEnding {
    /// Returns the resulting status of the task.
    #[must_use]
    pub const fn status(self) -> TaskStatus {
        match self {
            Self::Cancelled => TaskStatus::Cancelled,
            Self::MaxIterationsReached => TaskStatus::MaxIterationsReached,
            Self::TimedOut => TaskStatus::TimedOut,
        }
    }

    /// Returns the code of the resulting error.
    pub(crate) const fn code(self) -> Code {
        match self {
            Self::Cancelled => Code::Cancelled,
            Self::MaxIterationsReached => Code::MaxIterationsReached,
            Self::TimedOut => Code::TimedOut,
        }
    }

    /// Parses the name of the resulting status.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        let all = [Self::Cancelled, Self::MaxIterationsReached, Self::TimedOut];
        all.into_iter().find(|ending| ending.status().as_str() == word)
    }
}

/// The end of the last turn of a task's current run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LastTurn {
    /// Status of the turn.
    pub status: TurnStatus,
    /// Whether its runtime was lost.
    pub lost: bool,
}
