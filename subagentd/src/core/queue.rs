//! The rules of the queue: messages that were accepted while their worker was busy. What they say is the store's alone;
//! here they are ids in an order. The next one is opened by whatever leaves the worker without a turn, in that step.

use std::collections::VecDeque;

use serde_json::{Value, json};
use subagent_protocol::api::not_queued;
use subagent_protocol::event::EventType;
use subagent_protocol::ids::TurnId;
use subagent_protocol::state::QueuePause;
use subagent_protocol::{Code, Error, Result};

use super::step::Next;
use super::worker::{By, Fact, Input, STOPPED_BY_MANAGER, State, Worker, stopped_for_good};

/// Why a turn is canceled for the sake of another message.
pub(crate) const STEERED: &str = "steered";
/// Why a message is dropped by an order.
const DROPPED: &str = "dropped by manager";

/// What waits for a worker. It is never paused while nothing waits, and a worker without an open turn has nothing that waits
/// but what is paused, or what is looked at before it is opened.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Queue {
    /// The turns to be, in order.
    pub turns: VecDeque<TurnId>,
    /// Why none of them is opened until somebody says so.
    pub paused: Option<QueuePause>,
    /// Whether each of them is opened by [`Input::OpenQueued`] alone, because something
    /// of the worker is limited: what has been used is not known here. Not stored; whoever looks after a worker knows it.
    pub gated: bool,
}

impl Queue {
    /// The place of a turn, from 1.
    #[must_use]
    pub fn position(&self, turn_id: &TurnId) -> Option<usize> {
        self.turns.iter().position(|queued| queued == turn_id).map(|index| index + 1)
    }
}

/// A message that may have to wait.
#[derive(Debug, Clone, PartialEq)]
pub struct Queued {
    /// The id of its turn.
    pub turn_id: TurnId,
    /// Data of its `message.sent`.
    pub message: Value,
    /// Data of its `turn.started` without the turn's id.
    pub input: Value,
    /// The epoch of the owner who sent it, if he said who he is.
    pub sender: Option<i64>,
}

/// Where a message goes whose worker is busy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Urgency {
    /// Behind all others, also if the worker is idle because they are paused.
    Queued,
    /// Behind all others; but an idle worker gets it at once.
    Retried,
    /// Before all others, and the open turn is canceled.
    Steered,
    /// Behind all others; nothing but what is paused, or looked at, keeps it from an idle worker.
    Delivered,
    /// The same, and what is paused goes on.
    Resumed,
    /// Before all others; an idle worker gets it as what is looked at.
    Ahead,
}

impl Urgency {
    /// Whether an idle worker for which so many messages wait is sent it without it having waited.
    const fn is_at_once(self, waiting: usize) -> bool {
        match self {
            Self::Queued => waiting == 0,
            Self::Retried | Self::Steered => true,
            Self::Delivered | Self::Resumed | Self::Ahead => false,
        }
    }
}

impl Input {
    /// The same order where there is no place for what it would begin: that waits. `None` of what cannot wait.
    #[must_use]
    pub fn waiting(self, sender: Option<i64>) -> Option<Self> {
        let delivered = Urgency::Delivered;
        match self {
            Self::Send { turn_id, message, input, by: By::Runtime } => {
                let queued = Queued { turn_id, message, input, sender };
                Some(Self::Enqueue { queued, urgency: delivered, most: usize::MAX })
            }
            Self::Enqueue { queued, urgency: Urgency::Queued, most } => {
                Some(Self::Enqueue { queued, urgency: delivered, most })
            }
            Self::Enqueue { queued, urgency: Urgency::Retried | Urgency::Steered, most } => {
                Some(Self::Enqueue { queued, urgency: Urgency::Ahead, most })
            }
            Self::ResumeQueue => Some(Self::ResumeQueue),
            _ => None,
        }
    }
}

impl Worker {
    /// Whether the head of the queue only needs a budget check to start.
    #[must_use]
    pub fn waits_to_open(&self) -> bool {
        self.goes_on_alone() && !self.is_parked()
    }

    /// Whether it is idle and the head of its queue starts by itself.
    #[must_use]
    pub fn goes_on_alone(&self) -> bool {
        let idle = matches!(self.state, State::Idle | State::Error);
        idle && self.queue.paused.is_none() && !self.queue.turns.is_empty()
    }
}

impl Next {
    /// Sends a message, or has it wait.
    pub(super) fn enqueue(&mut self, queued: Queued, urgency: Urgency, most: usize) -> Result<()> {
        let waiting = self.worker.queue.turns.len();
        let steered = matches!(urgency, Urgency::Steered | Urgency::Ahead);
        match &self.worker.state {
            State::Stopping(_) | State::Stopped => {
                return Err(stopped_for_good(self.worker.public_state()));
            }
            State::Idle | State::Error if urgency.is_at_once(waiting) && !self.worker.is_parked() => {
                self.begin(queued.turn_id, queued.message, &queued.input, By::Runtime);
                return Ok(());
            }
            // It would be the first, and nothing would come of it.
            _ if steered && self.worker.queue.paused.is_some() => return Err(self.is_paused()),
            _ => {}
        }
        if waiting >= most {
            let message =
                format!("as many messages as may ({most}) wait for the worker already; drop some, or wait");
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
            State::Turn(_) | State::Local(_) if steered => self.cancel(STEERED.to_owned()),
            _ if urgency == Urgency::Resumed => self.resume_queue(),
            _ => Ok(()),
        }
    }

    /// The refusal of what would overtake messages that wait, or wait for them in vain.
    pub(super) fn is_paused(&self) -> Error {
        let waiting = self.worker.queue.turns.len();
        let message = format!(
            "the queue is paused, and what waits in it ({waiting}) comes first: go on with `queue resume`, `turn drop` it, or \
             send this one before it to the idle worker with `--if-busy steer`"
        );
        let reason = self.worker.queue.paused.map(QueuePause::as_str);
        let state = self.worker.public_state().as_str();
        Error::new(Code::QueuePaused, message)
            .with("length", waiting)
            .with("reason", reason)
            .with("state", state)
    }

    /// Opens the next turn if the worker has none and nobody has to look first. To be called at the end of each step.
    pub(super) fn open_next(&mut self) {
        if !self.worker.queue.gated {
            self.open_first();
        }
    }

    /// Somebody has looked whether the next turn may be opened.
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

    /// Has what waits wait until somebody resumes it.
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

    /// What waits goes on. Nothing follows if it is not paused.
    pub(super) fn resume_queue(&mut self) -> Result<()> {
        if let State::Stopping(_) | State::Stopped = self.worker.state {
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

    /// Gives it this place, from 1, or the last.
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

    /// Nothing is sent to a worker that is being stopped.
    pub(super) fn drop_all_queued(&mut self) {
        self.worker.queue.paused = None;
        for turn_id in std::mem::take(&mut self.worker.queue.turns) {
            self.dropped(&turn_id, STOPPED_BY_MANAGER);
        }
    }

    /// Nothing of what waits is wanted any more.
    pub(super) fn drop_for_good(&mut self, reason: &str) {
        for turn_id in std::mem::take(&mut self.worker.queue.turns) {
            self.dropped(&turn_id, reason);
        }
        self.not_paused_if_empty();
    }

    /// Whether this message waits.
    pub(super) fn waits(&self, turn_id: &TurnId) -> Result<()> {
        self.index_of(turn_id).map(drop)
    }

    /// A runtime was given what is stored as waiting: it must not be given it again.
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
