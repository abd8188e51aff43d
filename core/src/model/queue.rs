//! The queue of a worker: messages for later turns.

use std::collections::VecDeque;

use serde_json::Value;
use subagent_protocol::data::turns::TurnInput;
use subagent_protocol::ids::TurnId;
use subagent_protocol::state::QueuePause;

/// The queue of a worker. Never paused while empty. Without an open turn, it is empty, paused,
/// gated or parked.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Queue {
    /// Ids of the queued turns, in order.
    pub turns: VecDeque<TurnId>,
    /// Why the queue is paused until a client resumes it.
    pub paused: Option<QueuePause>,
    /// Whether only [`WorkerInput::OpenQueued`](super::WorkerInput::OpenQueued) opens a turn, after a check of budgets, which the rules
    /// do not know. Not stored.
    pub gated: bool,
}

impl Queue {
    /// Returns the position of a turn, starting at 1.
    #[must_use]
    pub fn position(&self, turn_id: &TurnId) -> Option<usize> {
        self.turns.iter().position(|queued| queued == turn_id).map(|index| index + 1)
    }
}

/// A message that may have to wait.
#[derive(Debug, Clone, PartialEq)]
pub struct Queued {
    /// Id of its turn.
    pub turn_id: TurnId,
    /// Data of its `message.sent`.
    pub message: Value,
    /// Its input in `turn.started`.
    pub input: TurnInput,
    /// Epoch of the sending owner, if the request had a handle.
    pub sender: Option<i64>,
}

/// The position of a message to a busy worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueuePosition {
    /// Last. Also queued if the worker is idle with a paused queue.
    Queued,
    /// Last. An idle worker gets it at once.
    Retried,
    /// First, and the open turn is canceled.
    Steered,
    /// Last. An idle worker gets it unless the queue is paused or gated.
    Delivered,
    /// Like `Delivered`, and resumes a paused queue.
    Resumed,
    /// First. An idle worker gets it after the check of a gated queue.
    Ahead,
}

impl QueuePosition {
    /// Returns whether an idle worker with this number of queued messages gets it at once.
    pub(crate) const fn is_at_once(self, waiting: usize) -> bool {
        match self {
            Self::Queued => waiting == 0,
            Self::Retried | Self::Steered => true,
            Self::Delivered | Self::Resumed | Self::Ahead => false,
        }
    }
}
