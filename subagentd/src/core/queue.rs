//! The queue: messages accepted while their worker is busy. Their content is only in the store;
//! here they are ids in order. The step that leaves the worker without a turn opens the next one.

use std::collections::VecDeque;

use serde_json::{Value, json};
use subagent_protocol::api::not_queued;
use subagent_protocol::event::EventType;
use subagent_protocol::ids::TurnId;
use subagent_protocol::state::QueuePause;
use subagent_protocol::{Code, Error, Result};

use super::step::TransitionBuilder;
use super::worker::{By, Fact, LifecycleState, STOPPED_BY_MANAGER, Worker, WorkerInput, stopped_for_good};

/// Reason of a cancel in favor of another message.
pub(crate) const STEERED: &str = "steered";
/// Reason in the event of a dropped message.
const DROPPED: &str = "dropped by manager";

/// The queue of a worker. Never paused while empty. Without an open turn, it is empty, paused,
/// gated or parked.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Queue {
    /// Ids of the queued turns, in order.
    pub turns: VecDeque<TurnId>,
    /// Why the queue is paused until a client resumes it.
    pub paused: Option<QueuePause>,
    /// Whether only [`WorkerInput::OpenQueued`] opens a turn, after a check of budgets, which the rules
    /// do not know. Not stored.
    pub gated: bool,
}

impl Queue {
    /// Returns the position of a turn, starting at 1.
    #[must_use]
    pub(crate) fn position(&self, turn_id: &TurnId) -> Option<usize> {
        self.turns.iter().position(|queued| queued == turn_id).map(|index| index + 1)
    }
}

/// A message that may have to wait.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Queued {
    /// Id of its turn.
    pub turn_id: TurnId,
    /// Data of its `message.sent`.
    pub message: Value,
    /// Data of its `turn.started` without the turn's id.
    pub input: Value,
    /// Epoch of the sending owner, if the request had a handle.
    pub sender: Option<i64>,
}

/// The position of a message to a busy worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum QueuePosition {
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
    const fn is_at_once(self, waiting: usize) -> bool {
        match self {
            Self::Queued => waiting == 0,
            Self::Retried | Self::Steered => true,
            Self::Delivered | Self::Resumed | Self::Ahead => false,
        }
    }
}

impl WorkerInput {
    /// Returns the order that queues its message instead of starting a turn, because no slot is
    /// free. `None` if it cannot be queued.
    #[must_use]
    pub(crate) fn waiting(self, sender: Option<i64>) -> Option<Self> {
        let delivered = QueuePosition::Delivered;
        match self {
            Self::Send { turn_id, message, input, by: By::Runtime } => {
                let queued = Queued { turn_id, message, input, sender };
                Some(Self::Enqueue { queued, urgency: delivered, most: usize::MAX })
            }
            Self::Enqueue { queued, urgency: QueuePosition::Queued, most } => {
                Some(Self::Enqueue { queued, urgency: delivered, most })
            }
            Self::Enqueue { queued, urgency: QueuePosition::Retried | QueuePosition::Steered, most } => {
                Some(Self::Enqueue { queued, urgency: QueuePosition::Ahead, most })
            }
            Self::ResumeQueue => Some(Self::ResumeQueue),
            _ => None,
        }
    }
}

impl Worker {
    /// Whether the head of the queue only needs a budget check to start.
    #[must_use]
    pub(crate) fn waits_to_open(&self) -> bool {
        self.goes_on_alone() && !self.is_parked()
    }

    /// Returns whether the worker is idle and the head of its queue starts by itself.
    #[must_use]
    pub(crate) fn goes_on_alone(&self) -> bool {
        let idle = matches!(self.state, LifecycleState::Idle | LifecycleState::Error);
        idle && self.queue.paused.is_none() && !self.queue.turns.is_empty()
    }
}

impl TransitionBuilder {
    /// Sends a message, or queues it.
    pub(super) fn enqueue(&mut self, queued: Queued, urgency: QueuePosition, most: usize) -> Result<()> {
        let waiting = self.worker.queue.turns.len();
        let steered = matches!(urgency, QueuePosition::Steered | QueuePosition::Ahead);
        match &self.worker.state {
            LifecycleState::Stopping(_) | LifecycleState::Stopped => {
                return Err(stopped_for_good(self.worker.public_state()));
            }
            LifecycleState::Idle | LifecycleState::Error
                if urgency.is_at_once(waiting) && !self.worker.is_parked() =>
            {
                self.begin(queued.turn_id, queued.message, &queued.input, By::Runtime);
                return Ok(());
            }
            // It would be the first, and would never start.
            _ if steered && self.worker.queue.paused.is_some() => return Err(self.is_paused()),
            _ => {}
        }
        if waiting >= most {
            let message = format!("the queue is full ({most} messages); drop one or wait");
            let error = Error::new(Code::QueueFull, message).with("limit", most).with("length", waiting);
            return Err(error);
        }
        let turn_id = queued.turn_id.clone();
        if steered {
            self.worker.queue.turns.push_front(turn_id.clone());
        } else {
            self.worker.queue.turns.push_back(turn_id.clone());
        }
        let position = if steered { 1 } else { waiting + 1 };
        self.facts.push(Fact::TurnQueued { queued, first: steered });
        self.event(EventType::TurnQueued, json!({"turnId": turn_id, "position": position}), None);
        match &self.worker.state {
            LifecycleState::Turn(_) | LifecycleState::Local(_) if steered => self.cancel(STEERED.to_owned()),
            _ if urgency == QueuePosition::Resumed => self.resume_queue(),
            _ => Ok(()),
        }
    }

    /// Returns the error for a message that would overtake a paused queue.
    pub(super) fn is_paused(&self) -> Error {
        let waiting = self.worker.queue.turns.len();
        let message = format!(
            "the queue is paused, and its messages ({waiting}) come first: run `queue resume`, drop them \
             with `turn drop`, or send this one ahead of them to the idle worker with `--if-busy steer`"
        );
        let reason = self.worker.queue.paused.map(QueuePause::as_str);
        let state = self.worker.public_state().as_str();
        Error::new(Code::QueuePaused, message)
            .with("length", waiting)
            .with("reason", reason)
            .with("state", state)
    }

    /// Opens the next turn of a queue that is not gated. Called at the end of each step.
    pub(super) fn open_next(&mut self) {
        if !self.worker.queue.gated {
            self.open_first();
        }
    }

    /// Opens the next turn after a check, or pauses the queue if it was refused.
    pub(super) fn open_queued(&mut self, refused: Option<Error>) {
        match refused {
            Some(error) if self.worker.waits_to_open() => {
                self.facts.push(Fact::LastError(Some(error)));
                self.pause(QueuePause::Budget, None);
            }
            Some(_) => {}
            None => self.open_first(),
        }
    }

    fn open_first(&mut self) {
        if !self.worker.waits_to_open() {
            return;
        }
        let Some(id) = self.worker.queue.turns.pop_front() else { return };
        let no = self.next_number();
        self.facts.push(Fact::QueuedTurnOpened { no, id: id.clone() });
        self.give_to_runtime(no, id);
    }

    /// Pauses the queue until a client resumes it.
    pub(super) fn pause(&mut self, reason: QueuePause, turn: Option<&TurnId>) {
        let length = self.worker.queue.turns.len();
        if length == 0 || self.worker.queue.paused.is_some() {
            return;
        }
        self.worker.queue.paused = Some(reason);
        let mut data = json!({"reason": reason, "length": length});
        if let Some(turn_id) = turn {
            data["turnId"] = turn_id.as_str().into();
        }
        self.event(EventType::QueuePaused, data, None);
    }

    /// Resumes a paused queue.
    pub(super) fn resume_queue(&mut self) -> Result<()> {
        if let LifecycleState::Stopping(_) | LifecycleState::Stopped = self.worker.state {
            return Err(stopped_for_good(self.worker.public_state()));
        }
        if self.worker.queue.paused.take().is_some() {
            let length = self.worker.queue.turns.len();
            self.event(EventType::QueueResumed, json!({"length": length}), None);
        }
        Ok(())
    }

    pub(super) fn drop_queued(&mut self, turn_id: &TurnId) -> Result<()> {
        let index = self.index_of(turn_id)?;
        self.worker.queue.turns.remove(index);
        self.dropped(turn_id, DROPPED);
        self.not_paused_if_empty();
        Ok(())
    }

    /// Moves a message to a position, from 1. Larger positions mean the last.
    pub(super) fn move_queued(&mut self, turn_id: &TurnId, to: usize) -> Result<()> {
        let index = self.index_of(turn_id)?;
        let to = to.clamp(1, self.worker.queue.turns.len()) - 1;
        if index == to {
            return Ok(());
        }
        if let Some(moved) = self.worker.queue.turns.remove(index) {
            self.worker.queue.turns.insert(to, moved);
        }
        self.facts.push(Fact::QueueOrdered { turns: self.worker.queue.turns.iter().cloned().collect() });
        self.event(EventType::TurnMoved, json!({"turnId": turn_id, "position": to + 1}), None);
        Ok(())
    }

    /// Drops all messages of a worker that is being stopped.
    pub(super) fn drop_all_queued(&mut self) {
        self.worker.queue.paused = None;
        for turn_id in std::mem::take(&mut self.worker.queue.turns) {
            self.dropped(&turn_id, STOPPED_BY_MANAGER);
        }
    }

    /// Drops all messages of a task that ends.
    pub(super) fn drop_for_good(&mut self, reason: &str) {
        for turn_id in std::mem::take(&mut self.worker.queue.turns) {
            self.dropped(&turn_id, reason);
        }
        self.not_paused_if_empty();
    }

    /// Checks that this message is queued.
    pub(super) fn waits(&self, turn_id: &TurnId) -> Result<()> {
        self.index_of(turn_id).map(drop)
    }

    /// Removes a message that a runtime has got already, so that it is not sent twice.
    pub(super) fn unqueue_recovered(&mut self, turn_id: &TurnId) {
        if let Ok(index) = self.index_of(turn_id) {
            self.worker.queue.turns.remove(index);
            self.facts.push(Fact::TurnUnqueued { id: turn_id.clone() });
            self.not_paused_if_empty();
        }
    }

    fn index_of(&self, turn_id: &TurnId) -> Result<usize> {
        let index = self.worker.queue.turns.iter().position(|queued| queued == turn_id);
        index.ok_or_else(|| not_queued(turn_id.as_str()))
    }

    fn dropped(&mut self, turn_id: &TurnId, reason: &str) {
        self.facts.push(Fact::TurnUnqueued { id: turn_id.clone() });
        self.event(EventType::TurnDropped, json!({"turnId": turn_id, "reason": reason}), None);
    }

    fn not_paused_if_empty(&mut self) {
        if self.worker.queue.turns.is_empty() && self.worker.queue.paused.take().is_some() {
            self.event(EventType::QueueResumed, json!({"length": 0}), None);
        }
    }
}
