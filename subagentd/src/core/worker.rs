//! A worker as the rules see it: its state, what can happen, and what follows.

use std::collections::BTreeMap;

use serde_json::Value;
use subagent_protocol::budget::Money;
use subagent_protocol::event::EventType;
use subagent_protocol::ids::{RequestId, TurnId};
use subagent_protocol::record::{ApprovalClosedReason, SessionOrigin, TurnEnd};
use subagent_protocol::secret::Secret;
use subagent_protocol::state::{ApprovalStatus, Carrier, Dispatched, QuestionKind, TurnStatus, WorkerState};
use subagent_protocol::{Code, Error};

pub use super::action::{Action, Step};
use super::approval::{Approval, Request};
use super::budget::Spent;
use super::decision::{Choice, HooksOutcome, Reply};
pub use super::hibernation::Hibernation;
use super::inbox::{InboxFact, InboxInput};
use super::queue::{Queue, Queued, Urgency};
use super::rate_limit::{Limit, Parking};
pub use super::restart::Restart;
use super::task::TaskEnding;
pub use super::turn::{By, Cancel, Link, LocalTurn, State, Turn};

/// Why a turn is canceled when nobody says why.
pub const CANCELED_BY_MANAGER: &str = "canceled by manager";

/// Why a turn is canceled when its worker is stopped.
pub(crate) const STOPPED_BY_MANAGER: &str = "worker stopped by manager";

/// The refusal of whatever a stopped worker would have to do.
pub(crate) fn stopped_for_good(state: WorkerState) -> Error {
    let message = "the worker was stopped for good; start another one with `subagent worker start`";
    Error::new(Code::WorkerStopped, message).with("state", state.as_str())
}

/// A worker: what it is doing, and what is known of its runtime.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Worker {
    /// What it is doing.
    pub state: State,
    /// Its runtime.
    pub link: Link,
    /// The permission requests of its agent that are not over.
    pub approvals: BTreeMap<RequestId, Request>,
    /// The number of its last turn, 0 for none.
    pub last_turn: u64,
    /// The highest number of a turn that is stored. One above it that a runtime speaks of was accepted by a daemon
    /// whose database has been replaced by an older one.
    pub known_turn: u64,
    /// Whether somebody wants another runtime for it.
    pub restart: Restart,
    /// Whether its agent was ended, or is being ended, because it was idle for long.
    pub hibernation: Hibernation,
    /// What waits for it.
    pub queue: Queue,
    /// Whether it waits for the end of a rate limit.
    pub parking: Parking,
}

/// What can happen to a worker.
#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    /// Somebody sends a message.
    Send {
        /// The id of the new turn.
        turn_id: TurnId,
        /// Data of its `message.sent`.
        message: Value,
        /// Data of its `turn.started` without the turn's id.
        input: Value,
        /// Who carries it out.
        by: By,
    },
    /// Somebody sends a message that may wait.
    Enqueue {
        /// What.
        queued: Queued,
        /// Where it goes.
        urgency: Urgency,
        /// So many may wait.
        most: usize,
    },
    /// Somebody does not want a message sent that waits.
    DropQueued {
        /// Which.
        turn_id: TurnId,
    },
    /// Somebody gives a message that waits another place.
    MoveQueued {
        /// Which.
        turn_id: TurnId,
        /// Which place, from 1; behind the last is the last.
        to: usize,
    },
    /// Somebody has a paused queue go on.
    ResumeQueue,
    /// Somebody adds to a message that waits.
    AppendQueued {
        /// Which.
        turn_id: TurnId,
        /// What.
        text: String,
    },
    /// The task of the worker is to end.
    EndTask {
        /// What it comes to.
        ending: TaskEnding,
        /// Why.
        reason: String,
    },
    /// Somebody decides a permission request.
    Decide {
        /// Which.
        request_id: RequestId,
        /// What.
        choice: Choice,
        /// A note.
        note: Option<String>,
    },
    /// Hooks run for a permission request that nothing has decided: nothing is asked before they answer.
    HoldForHooks {
        /// Which.
        request_id: RequestId,
    },
    /// The hooks of a permission request have answered.
    HooksAnswered {
        /// Which.
        request_id: RequestId,
        /// What follows.
        outcome: HooksOutcome,
    },
    /// A rule of the owner decides a permission request.
    DecideByRule {
        /// Which.
        request_id: RequestId,
        /// What.
        choice: Choice,
        /// Which rule, as events tell of it.
        rule: Value,
    },
    /// The agent has done what a rule of the owner denies.
    Violation {
        /// In which turn; none if it was outside of any.
        turn: Option<u64>,
        /// What, and which rule, as events tell of it.
        call: Value,
    },
    /// A budget is used up for which the open turn is to be canceled.
    OverBudget {
        /// Which.
        error: Error,
    },
    /// Journal: the agent says what its session has cost so far.
    CostReported {
        /// How much.
        cost: Money,
    },
    /// Somebody answers an elicitation.
    Answer {
        /// Which.
        request_id: RequestId,
        /// With what.
        reply: Reply,
    },
    /// Something happens to its questions.
    Inbox(InboxInput),
    /// Somebody cancels the turn.
    Cancel {
        /// Why.
        reason: String,
    },
    /// Somebody stops the worker.
    Stop,
    /// Somebody stops it if nothing of it lives or is open, because it is to be removed.
    Retire,
    /// Somebody wants another runtime.
    Restart {
        /// Whether an open turn is canceled for it.
        force: bool,
    },
    /// Somebody has looked whether the budgets let the first message that waits have its turn.
    OpenQueued {
        /// Why they do not.
        refused: Option<Error>,
    },
    /// Nothing of the worker was open for long, and its agent can restore its session.
    Hibernate {
        /// How long.
        idle_seconds: u64,
    },
    /// The runtime does not end for it: something is open.
    HibernateRefused,
    /// Somebody needs the agent of a worker that hibernates.
    Wake,
    /// Journal: the agent has a session. The first of a worker is new and has lost nothing.
    Session {
        /// How it came to be.
        origin: SessionOrigin,
        /// Whether an earlier one was lost.
        context_lost: bool,
        /// Why it was.
        context_lost_reason: Option<String>,
        /// How long it took to be ready, where that is known.
        took_ms: Option<u64>,
    },
    /// Journal: the agent could not be brought to a session.
    StartFailed {
        /// Why.
        error: Error,
    },
    /// The system refused to start a runtime at all.
    SpawnFailed {
        /// Why.
        error: Error,
    },
    /// Journal: a prompt is about to be written.
    Dispatching {
        /// The turn's number.
        turn: u64,
    },
    /// A runtime was given a turn that is not stored: the database was replaced by an older one since.
    TurnRecovered {
        /// The turn's number.
        turn: u64,
        /// Its id.
        turn_id: TurnId,
    },
    /// A runtime waits for the answer to a request of which nothing is stored, for the same reason.
    ApprovalRecovered {
        /// Our id of the request.
        request_id: RequestId,
    },
    /// Journal: the agent asks.
    ApprovalRequested {
        /// Our id of the request.
        request_id: RequestId,
    },
    /// Journal: the agent asks its user something.
    ElicitationRequested {
        /// Our id of the request.
        request_id: RequestId,
    },
    /// Journal: a request ended without an answer of ours.
    ApprovalClosed {
        /// Which.
        request_id: RequestId,
        /// Why.
        reason: ApprovalClosedReason,
    },
    /// Journal: our answer is about to be written.
    AnswerWritten {
        /// Which.
        request_id: RequestId,
    },
    /// The runtime does not know the request that we answer.
    AnswerRefused {
        /// Which.
        request_id: RequestId,
    },
    /// The runtime did not take the prompt; it was never written.
    PromptRefused {
        /// The turn's number.
        turn: u64,
        /// Why; `None` if the runtime is ending and another one may take it.
        error: Option<Error>,
    },
    /// Journal: the cancel was taken.
    CancelRequested {
        /// The turn's number.
        turn: u64,
        /// Why.
        reason: String,
    },
    /// Journal: the prompt ended.
    TurnEnd {
        /// The turn's number.
        turn: u64,
        /// How.
        end: TurnEnd,
    },
    /// Journal: the agent's process ended.
    Ending,
    /// Journal: the runtime was told to end, by us or by somebody else (SIGTERM).
    Terminating {
        /// Why.
        reason: String,
    },
    /// The runtime's lock is free and its journal was read to the end.
    RuntimeGone {
        /// Whether its last record is the guard's proof.
        clean: bool,
        /// Whether the machine was started anew since: then the end of the journal may be missing.
        rebooted: bool,
    },
    /// A runtime answered our hello; its journal was read up to what it said.
    Attached {
        /// How far it is.
        link: Link,
        /// The last turn that it took.
        last_turn: u64,
    },
    /// Nothing that the worker started exists any more (the guard's lock is free too).
    NothingLeft,
    /// Journal: a turn or a start failed, and the agent reports a rate limit for which the worker is parked.
    RateLimited {
        /// The rate limit.
        limit: Limit,
        /// What failed: a [`Input::TurnEnd`] or a [`Input::StartFailed`].
        input: Box<Input>,
    },
    /// The time is over for which the worker is parked.
    ParkingOver,
}

/// What must be stored in the same transaction as the new state.
#[derive(Debug, Clone, PartialEq)]
pub enum Fact {
    /// A turn was opened.
    TurnOpened {
        /// Its number.
        no: u64,
        /// Its id.
        id: TurnId,
        /// Who carries it out.
        carrier: Carrier,
    },
    /// A message waits from now on: all of it is to be kept.
    TurnQueued {
        /// It.
        queued: Queued,
        /// Whether before all others.
        first: bool,
    },
    /// A message does not wait any more.
    TurnUnqueued {
        /// The id of its turn.
        id: TurnId,
    },
    /// What waits has another order: this one.
    QueueOrdered {
        /// All of them.
        turns: Vec<TurnId>,
    },
    /// A message that waits is longer from now on.
    QueuedAppended {
        /// The id of its turn.
        id: TurnId,
        /// By this.
        text: String,
    },
    /// The task of the worker ends by this, unless something else has ended it before.
    TaskEnding(TaskEnding),
    /// Why the present run of the worker's task ends early. The first reason counts.
    TaskCause {
        /// The reason.
        error: Error,
        /// The turn that it is about, if it is about one: the run may have ended before a violation was noticed.
        turn: Option<u64>,
    },
    /// A turn was opened that waited: with the events `turn.started` and `message.sent`, made of what was kept.
    QueuedTurnOpened {
        /// Its number.
        no: u64,
        /// Its id.
        id: TurnId,
    },
    /// The prompt of a turn is being written.
    TurnDispatching {
        /// Its number.
        no: u64,
    },
    /// Another runtime is started for a turn that was never sent.
    TurnRetried {
        /// Its number.
        no: u64,
    },
    /// A cancel of a turn was taken by us or by the runtime.
    TurnCancel {
        /// Its number.
        no: u64,
        /// The cancel.
        cancel: Cancel,
    },
    /// The agent reports the tokens of a turn.
    TurnUsed {
        /// Its number.
        no: u64,
        /// How many; `None` if the report names no number of tokens.
        tokens: Option<u64>,
        /// The report: numbers by name.
        counts: Value,
    },
    /// A turn ended.
    TurnClosed {
        /// Its number.
        no: u64,
        /// How.
        status: TurnStatus,
        /// Whether its prompt was sent.
        dispatched: Dispatched,
    },
    /// A question is open. Its event is the record itself, or for a simulated turn the one before.
    ApprovalOpened {
        /// Which.
        request_id: RequestId,
        /// What is waited for.
        kind: QuestionKind,
        /// The turn that asks.
        turn: Option<u64>,
    },
    /// Hooks run for a question that is open: it is hidden.
    ApprovalHeld {
        /// Which.
        request_id: RequestId,
    },
    /// A hidden question is shown, with the event `approval.requested`.
    ApprovalReleased {
        /// Which.
        request_id: RequestId,
    },
    /// A permission request was decided.
    ApprovalDecided {
        /// Which.
        request_id: RequestId,
        /// The option, or the action of an elicitation.
        option_id: Option<String>,
        /// What was filled in, as JSON text: to be kept until the request is over, and no longer.
        content: Option<Secret<String>>,
        /// By the cancel of its turn.
        by_cancel: bool,
    },
    /// A permission request is over.
    ApprovalClosed {
        /// Which.
        request_id: RequestId,
        /// How.
        status: ApprovalStatus,
    },
    /// More about a question, or a rule that its decision became.
    Inbox(InboxFact),
    /// An event of the daemon.
    Event {
        /// Its type.
        event_type: EventType,
        /// Its data.
        data: Value,
        /// The turn that it belongs to.
        turn: Option<u64>,
    },
    /// The error to show; `None` clears it.
    LastError(Option<Error>),
    /// From now on the worker must not run.
    DesiredStop,
    /// Something was used: to be added to the accounts that stand for the worker.
    Spent(Spent),
}

impl Worker {
    /// A worker whose first runtime is to be started.
    #[must_use]
    pub fn new() -> Self {
        Self {
            state: State::Starting,
            link: Link::None,
            approvals: BTreeMap::new(),
            last_turn: 0,
            known_turn: 0,
            restart: Restart::None,
            hibernation: Hibernation::None,
            queue: Queue::default(),
            parking: Parking::default(),
        }
    }

    /// A worker that is to be started in debug mode: without a runtime, until a message needs one.
    #[must_use]
    pub fn without_runtime() -> Self {
        Self { state: State::Idle, ..Self::new() }
    }

    /// The id of the open turn, whoever carries it out.
    #[must_use]
    pub fn open_turn(&self) -> Option<&TurnId> {
        match &self.state {
            State::Local(local) => Some(&local.id),
            _ => self.turn().map(|turn| &turn.id),
        }
    }

    /// Whether the row of this worker is that of the other. What is known of a runtime, and whether the queue is looked after,
    /// is in none.
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

    /// The open turn of the runtime.
    #[must_use]
    pub fn turn(&self) -> Option<&Turn> {
        match &self.state {
            State::Turn(turn) | State::Stopping(Some(turn)) => Some(turn),
            _ => None,
        }
    }

    /// The turn to which a permission request belongs that is made now. A turn that the runtime has not taken yet
    /// asks nothing: the request was there before it, and outlives it.
    #[must_use]
    pub fn asking_turn(&self) -> Option<u64> {
        self.turn().filter(|turn| turn.dispatching).map(|turn| turn.no)
    }

    /// Whether its agent may be ended because it is idle: it is ready, and nothing of it is open.
    #[must_use]
    pub fn rests(&self) -> bool {
        self.state == State::Idle
            && self.link == Link::Ready
            && self.approvals.is_empty()
            && self.restart == Restart::None
            && self.hibernation == Hibernation::None
    }

    /// The state that users see. `waiting_approval` is derived from the open approvals.
    #[must_use]
    pub fn public_state(&self) -> WorkerState {
        match &self.state {
            State::Starting => WorkerState::Starting,
            State::Idle | State::Stopping(None) => WorkerState::Idle,
            State::Stopping(Some(_)) => WorkerState::Canceling,
            State::Turn(turn) if turn.cancel.is_some() => WorkerState::Canceling,
            State::Local(_) => WorkerState::WaitingApproval,
            State::Turn(_) if self.approvals.values().any(|asked| asked.approval == Approval::Pending) => {
                WorkerState::WaitingApproval
            }
            State::Turn(_) => WorkerState::Running,
            State::Error => WorkerState::Error,
            State::Stopped => WorkerState::Stopped,
        }
    }

    /// What happens next.
    ///
    /// # Errors
    /// What a user did wrong, with its code; for an input of the journal that cannot be (a damaged or foreign
    /// journal) `INTERNAL_ERROR`. The worker stays as it was.
    pub fn step(&self, input: Input) -> subagent_protocol::Result<Step> {
        super::step::step(self, input)
    }
}

impl Default for Worker {
    fn default() -> Self {
        Self::new()
    }
}
