//! A worker in the rules: its state, and what is known of its runtime.

use std::collections::BTreeMap;

use subagent_protocol::state::WorkerState;
use subagent_protocol::time::Timestamp;

use subagent_protocol::ids::{RequestId, TurnId};

use crate::model::{
    AgentRequest, Approval, Hibernation, LifecycleState, Parking, Queue, Restart, RuntimeStatus, RuntimeTurn,
};

/// A worker: its state, and what is known of its runtime.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Worker {
    /// State of the worker.
    pub state: LifecycleState,
    /// State of its runtime.
    pub link: RuntimeStatus,
    /// Open questions of its agent.
    pub approvals: BTreeMap<RequestId, AgentRequest>,
    /// Number of its newest turn, or 0.
    pub last_turn: u64,
    /// Highest stored turn number. A runtime with a higher one got the turn before the database was
    /// replaced by an older copy.
    pub known_turn: u64,
    /// State of a requested restart.
    pub restart: Restart,
    /// State of its hibernation for being idle.
    pub hibernation: Hibernation,
    /// Queue of messages for it.
    pub queue: Queue,
    /// Whether it waits for the end of a rate limit.
    pub parking: Parking,
}

impl Worker {
    /// Returns a worker whose first runtime is to be started.
    #[must_use]
    pub fn new() -> Self {
        Self {
            state: LifecycleState::Starting,
            link: RuntimeStatus::None,
            approvals: BTreeMap::new(),
            last_turn: 0,
            known_turn: 0,
            restart: Restart::None,
            hibernation: Hibernation::None,
            queue: Queue::default(),
            parking: Parking::default(),
        }
    }

    /// Returns a worker in debug mode, without a runtime until a message needs one.
    #[must_use]
    pub fn without_runtime() -> Self {
        Self { state: LifecycleState::Idle, ..Self::new() }
    }

    /// Returns the id of the open turn, simulated or not.
    #[must_use]
    pub fn open_turn(&self) -> Option<&TurnId> {
        match &self.state {
            LifecycleState::Local(local) => Some(&local.id),
            _ => self.turn().map(|turn| &turn.id),
        }
    }

    /// Returns whether both workers have equal rows. The state of the runtime and the gate of the
    /// queue are not stored.
    #[must_use]
    pub fn is_stored_like(&self, other: &Self) -> bool {
        let Self {
            state,
            link: _,
            approvals,
            last_turn,
            known_turn: _,
            restart,
            hibernation,
            queue,
            parking,
        } = self;
        let Queue { turns, paused, gated: _ } = queue;
        (state, approvals, last_turn, restart, hibernation, parking)
            == (
                &other.state,
                &other.approvals,
                &other.last_turn,
                &other.restart,
                &other.hibernation,
                &other.parking,
            )
            && (turns, paused) == (&other.queue.turns, &other.queue.paused)
    }

    /// Returns the open turn of the runtime.
    #[must_use]
    pub fn turn(&self) -> Option<&RuntimeTurn> {
        match &self.state {
            LifecycleState::Turn(turn) | LifecycleState::Stopping(Some(turn)) => Some(turn),
            _ => None,
        }
    }

    /// Returns the turn of a question that is asked now. A turn that the runtime has not taken yet
    /// asks nothing: the question was there before, and outlives the turn.
    #[must_use]
    pub(crate) fn asking_turn(&self) -> Option<u64> {
        self.turn().filter(|turn| turn.dispatching).map(|turn| turn.no)
    }

    /// Returns whether its idle agent may be ended: it is ready, and nothing is open.
    #[must_use]
    pub fn rests(&self) -> bool {
        self.state == LifecycleState::Idle
            && self.link == RuntimeStatus::Ready
            && self.approvals.is_empty()
            && self.restart == Restart::None
            && self.hibernation == Hibernation::None
    }

    /// Returns whether the agent hibernates or is about to.
    #[must_use]
    pub fn sleeps(&self) -> bool {
        self.hibernation != Hibernation::None
    }

    /// Returns the public state. `waiting_approval` is derived from the open approvals.
    #[must_use]
    pub fn public_state(&self) -> WorkerState {
        match &self.state {
            LifecycleState::Starting => WorkerState::Starting,
            LifecycleState::Idle | LifecycleState::Stopping(None) => WorkerState::Idle,
            LifecycleState::Stopping(Some(_)) => WorkerState::Canceling,
            LifecycleState::Turn(turn) if turn.cancel.is_some() => WorkerState::Canceling,
            LifecycleState::Local(_) => WorkerState::WaitingApproval,
            LifecycleState::Turn(_)
                if self.approvals.values().any(|asked| asked.approval == Approval::Pending) =>
            {
                WorkerState::WaitingApproval
            }
            LifecycleState::Turn(_) => WorkerState::Running,
            LifecycleState::Error => WorkerState::Error,
            LifecycleState::Stopped => WorkerState::Stopped,
        }
    }
}

impl Worker {
    /// Whether the head of the queue only needs a budget check to start.
    #[must_use]
    pub fn waits_to_open(&self) -> bool {
        self.goes_on_alone() && !self.is_parked()
    }

    /// Returns whether the worker is idle and the head of its queue starts by itself.
    #[must_use]
    pub fn goes_on_alone(&self) -> bool {
        let idle = matches!(self.state, LifecycleState::Idle | LifecycleState::Error);
        idle && self.queue.paused.is_none() && !self.queue.turns.is_empty()
    }
}

impl Worker {
    /// Returns whether the worker waits for the end of a rate limit.
    #[must_use]
    pub fn is_parked(&self) -> bool {
        self.parking.until.is_some()
    }

    /// Returns whether its open turn waits, too, because the prompt was not sent.
    #[must_use]
    pub fn holds_turn(&self) -> bool {
        let unsent =
            matches!(self.state, LifecycleState::Turn(RuntimeTurn { dispatching: false, cancel: None, .. }));
        unsent && self.is_parked()
    }

    /// Returns when the worker continues by itself. `None` while the runtime lives that failed to
    /// start for its turn.
    #[must_use]
    pub fn unparks_at(&self) -> Option<Timestamp> {
        self.parking.until.filter(|_| !(self.holds_turn() && self.link != RuntimeStatus::None))
    }
}

impl Default for Worker {
    fn default() -> Self {
        Self::new()
    }
}
