//! A worker in the rules: its state, the inputs that change it, and the facts that follow.

use std::collections::BTreeMap;

use serde_json::Value;
use subagent_protocol::budget::Money;
use subagent_protocol::event::EventType;
use subagent_protocol::ids::{RequestId, TurnId};
use subagent_protocol::record::{ApprovalClosedReason, SessionOrigin, TurnEnd};
use subagent_protocol::secret::Secret;
use subagent_protocol::state::{ApprovalStatus, Carrier, Dispatched, QuestionKind, TurnStatus, WorkerState};
use subagent_protocol::{Code, Error};

pub(crate) use super::action::{Transition, WorkerAction};
use super::approval::{AgentRequest, Approval};
use super::budget::Spent;
use super::decision::{ElicitationReply, HooksOutcome, PermissionDecision};
pub(crate) use super::hibernation::Hibernation;
use super::inbox::{InboxFact, QuestionInput};
use super::queue::{Queue, QueuePosition, Queued};
use super::rate_limit::{Limit, Parking};
pub(crate) use super::restart::Restart;
use super::task::TaskEnding;
pub(crate) use super::turn::{By, Cancel, LifecycleState, RuntimeStatus, RuntimeTurn, SimulatedTurn};

/// Reason of a cancel without another reason.
pub(crate) const CANCELED_BY_MANAGER: &str = "canceled by manager";

/// Reason of a cancel because the worker is stopped.
pub(crate) const STOPPED_BY_MANAGER: &str = "worker stopped by manager";

/// Returns the error for a request that a stopped worker cannot execute.
pub(crate) fn stopped_for_good(state: WorkerState) -> Error {
    let message = "the worker was stopped for good; start another one with `subagent worker start`";
    Error::new(Code::WorkerStopped, message).with("state", state.as_str())
}

/// A worker: its state, and what is known of its runtime.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Worker {
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

/// An input of the rules.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum WorkerInput {
    /// A client sends a message.
    Send {
        /// Id of the new turn.
        turn_id: TurnId,
        /// Data of its `message.sent`.
        message: Value,
        /// Data of its `turn.started` without the turn's id.
        input: Value,
        /// What executes the turn.
        by: By,
    },
    /// A client sends a message that may be queued.
    Enqueue {
        /// The message and its turn.
        queued: Queued,
        /// Its position in the queue.
        urgency: QueuePosition,
        /// Maximum number of queued messages.
        most: usize,
    },
    /// A client drops a queued message.
    DropQueued {
        /// Turn of the message.
        turn_id: TurnId,
    },
    /// A client moves a queued message.
    MoveQueued {
        /// Turn of the message.
        turn_id: TurnId,
        /// The new position, from 1. A larger one means the last.
        to: usize,
    },
    /// A client resumes a paused queue.
    ResumeQueue,
    /// A client appends text to a queued message.
    AppendQueued {
        /// Turn of the message.
        turn_id: TurnId,
        /// The text to append.
        text: String,
    },
    /// The task of the worker must end.
    EndTask {
        /// How the task ends.
        ending: TaskEnding,
        /// Why it must end.
        reason: String,
    },
    /// A client decides a permission request.
    Decide {
        /// Id of the request.
        request_id: RequestId,
        /// The option that was chosen.
        choice: PermissionDecision,
        /// Note of the owner.
        note: Option<String>,
    },
    /// Hooks start for an undecided permission request, which is hidden until they have answered.
    HoldForHooks {
        /// Id of the request.
        request_id: RequestId,
    },
    /// The hooks of a permission request have answered.
    HooksAnswered {
        /// Id of the request.
        request_id: RequestId,
        /// The combined outcome of hooks and policy.
        outcome: HooksOutcome,
    },
    /// A rule of the owner decides a permission request.
    DecideByRule {
        /// Id of the request.
        request_id: RequestId,
        /// The option that was chosen.
        choice: PermissionDecision,
        /// The rule in the form of events.
        rule: Value,
    },
    /// The agent made a call that a rule of the owner denies.
    Violation {
        /// The turn of the call, if there was one.
        turn: Option<u64>,
        /// The call and the rule in the form of events.
        call: Value,
    },
    /// An exhausted budget cancels the open turn.
    OverBudget {
        /// The error that names the budget.
        error: Error,
    },
    /// Journal: the agent reports the cost of its session so far.
    CostReported {
        /// The cost since the start of the session.
        cost: Money,
    },
    /// A client answers an elicitation.
    Answer {
        /// Id of the request.
        request_id: RequestId,
        /// The answer, already validated.
        reply: ElicitationReply,
    },
    /// Another input about questions.
    Inbox(QuestionInput),
    /// A client cancels the turn.
    Cancel {
        /// The only turn that it may cancel; any open one without it.
        turn: Option<TurnId>,
        /// Why it is canceled.
        reason: String,
    },
    /// A client stops the worker.
    Stop,
    /// A client stops the worker for its removal, if it has failed and has no runtime.
    Retire,
    /// A client restarts the runtime.
    Restart {
        /// Whether this cancels an open turn.
        force: bool,
    },
    /// The budgets were checked for the head of the queue.
    OpenQueued {
        /// The error if they do not allow the turn.
        refused: Option<Error>,
    },
    /// The worker was idle for its timeout, and its agent can resume its session.
    Hibernate {
        /// Length of the idle time, in seconds.
        idle_seconds: u64,
    },
    /// The runtime refuses to hibernate, because something is open.
    HibernateRefused,
    /// A client needs the agent of a hibernating worker.
    Wake,
    /// Journal: the agent has a session. The first one of a worker is new and has lost nothing.
    Session {
        /// How the session was created.
        origin: SessionOrigin,
        /// Whether an earlier session was lost.
        context_lost: bool,
        /// Why it was lost.
        context_lost_reason: Option<String>,
        /// Time from the wake-up to the session, in milliseconds.
        took_ms: Option<u64>,
    },
    /// Journal: the agent could not create a session.
    StartFailed {
        /// Why it could not.
        error: Error,
    },
    /// The system could not start a runtime.
    SpawnFailed {
        /// Why it could not.
        error: Error,
    },
    /// Journal: a prompt is about to be sent.
    Dispatching {
        /// Number of the turn.
        turn: u64,
    },
    /// A runtime has a turn that is not stored, because the database was replaced by an older copy.
    TurnRecovered {
        /// Number of the turn.
        turn: u64,
        /// Id of the turn.
        turn_id: TurnId,
    },
    /// A runtime has an open request that is not stored, for the same reason.
    ApprovalRecovered {
        /// The daemon's id of the request.
        request_id: RequestId,
    },
    /// Journal: the agent asks for a permission.
    ApprovalRequested {
        /// The daemon's id of the request.
        request_id: RequestId,
    },
    /// Journal: the agent asks the user for input.
    ElicitationRequested {
        /// The daemon's id of the request.
        request_id: RequestId,
    },
    /// Journal: a request ended without an answer of the daemon.
    ApprovalClosed {
        /// Id of the request.
        request_id: RequestId,
        /// Why the request ended.
        reason: ApprovalClosedReason,
    },
    /// Journal: an answer is about to be sent.
    AnswerWritten {
        /// Id of the request.
        request_id: RequestId,
    },
    /// The runtime does not know the answered request.
    AnswerRefused {
        /// Id of the request.
        request_id: RequestId,
    },
    /// The runtime refused the prompt, which was not sent.
    PromptRefused {
        /// Number of the turn.
        turn: u64,
        /// The error, or `None` if the runtime is ending and another one may take the turn.
        error: Option<Error>,
    },
    /// Journal: the cancel was taken.
    CancelRequested {
        /// Number of the turn.
        turn: u64,
        /// Why it is canceled.
        reason: String,
    },
    /// Journal: the prompt ended.
    TurnEnd {
        /// Number of the turn.
        turn: u64,
        /// How the prompt ended.
        end: TurnEnd,
    },
    /// Journal: the agent's process ended.
    Ending,
    /// Journal: the runtime was asked to end, by the daemon or by a signal.
    Terminating {
        /// Why the runtime ends.
        reason: String,
    },
    /// The runtime's lock is free and its journal was read to the end.
    RuntimeGone {
        /// Whether its last record is the guard's proof.
        clean: bool,
        /// Whether the machine rebooted, so that the end of the journal may be missing.
        rebooted: bool,
    },
    /// A runtime answered the hello, and its journal was read up to the position in the answer.
    Attached {
        /// State of the runtime.
        link: RuntimeStatus,
        /// Number of the last turn that it took.
        last_turn: u64,
    },
    /// No process of the worker is left, and the guard's lock is free.
    NothingLeft,
    /// Journal: a turn or a start failed for a rate limit that parks the worker.
    RateLimited {
        /// The reported rate limit.
        limit: Limit,
        /// The failure: a [`WorkerInput::TurnEnd`] or a [`WorkerInput::StartFailed`].
        input: Box<WorkerInput>,
    },
    /// The time of the parking is over.
    ParkingOver,
}

/// A fact that is stored in the same transaction as the new state.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Fact {
    /// A turn was opened.
    TurnOpened {
        /// Number of the turn.
        no: u64,
        /// Id of the turn.
        id: TurnId,
        /// What executes the turn.
        carrier: Carrier,
    },
    /// A message was queued. All of it must be kept.
    TurnQueued {
        /// The message and its turn.
        queued: Queued,
        /// Whether it is the first one.
        first: bool,
    },
    /// A message left the queue.
    TurnUnqueued {
        /// Id of its turn.
        id: TurnId,
    },
    /// The queue has another order.
    QueueOrdered {
        /// All queued turns in order.
        turns: Vec<TurnId>,
    },
    /// Text was appended to a queued message.
    QueuedAppended {
        /// Id of its turn.
        id: TurnId,
        /// The text that was appended.
        text: String,
    },
    /// The worker's task ends this way, unless another ending was stored before.
    TaskEnding(TaskEnding),
    /// Why the current run of the worker's task ends early. The first cause counts.
    TaskCause {
        /// The cause as an error.
        error: Error,
        /// The turn of the cause, if any. The run may have ended before a violation was noticed.
        turn: Option<u64>,
    },
    /// A queued turn was opened. The store adds `turn.started` and `message.sent` from the queued
    /// data.
    QueuedTurnOpened {
        /// Number of the turn.
        no: u64,
        /// Id of the turn.
        id: TurnId,
    },
    /// The prompt of a turn is being sent.
    TurnDispatching {
        /// Number of the turn.
        no: u64,
    },
    /// Another runtime is started for a turn that was not sent.
    TurnRetried {
        /// Number of the turn.
        no: u64,
    },
    /// The daemon or the runtime took a cancel of a turn.
    TurnCancel {
        /// Number of the turn.
        no: u64,
        /// Reason and state of the cancel.
        cancel: Cancel,
    },
    /// The agent reported the tokens of a turn.
    TurnUsed {
        /// Number of the turn.
        no: u64,
        /// Total number of tokens, if the report has one.
        tokens: Option<u64>,
        /// Reported numbers of tokens by name.
        counts: Value,
    },
    /// A turn has ended.
    TurnClosed {
        /// Number of the turn.
        no: u64,
        /// Final status of the turn.
        status: TurnStatus,
        /// Whether its prompt was sent.
        dispatched: Dispatched,
    },
    /// A question was opened. Its event is the record itself, or the event before for a simulated
    /// turn.
    ApprovalOpened {
        /// Id of the request.
        request_id: RequestId,
        /// Permission request or elicitation.
        kind: QuestionKind,
        /// Number of the asking turn.
        turn: Option<u64>,
    },
    /// Hooks run for an open question, which is hidden.
    ApprovalHeld {
        /// Id of the request.
        request_id: RequestId,
    },
    /// A hidden question is shown, with the event `approval.requested`.
    ApprovalReleased {
        /// Id of the request.
        request_id: RequestId,
    },
    /// A question was decided.
    ApprovalDecided {
        /// Id of the request.
        request_id: RequestId,
        /// The chosen option, or the action of an elicitation.
        option_id: Option<String>,
        /// Answered values as JSON text. Deleted when the question is closed.
        content: Option<Secret<String>>,
        /// Whether the cancel of its turn decided it.
        by_cancel: bool,
    },
    /// A question was closed.
    ApprovalClosed {
        /// Id of the request.
        request_id: RequestId,
        /// Final status of the question.
        status: ApprovalStatus,
    },
    /// Another fact about a question, or a rule from its decision.
    Inbox(InboxFact),
    /// An event of the daemon.
    Event {
        /// Type of the event.
        event_type: EventType,
        /// Data of the event.
        data: Value,
        /// Number of its turn.
        turn: Option<u64>,
    },
    /// The error to show; `None` clears it.
    LastError(Option<Error>),
    /// The worker must not run any more.
    DesiredStop,
    /// Usage to charge to the worker's accounts.
    Spent(Spent),
}

impl Worker {
    /// Returns a worker whose first runtime is to be started.
    #[must_use]
    pub(crate) fn new() -> Self {
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
    pub(crate) fn without_runtime() -> Self {
        Self { state: LifecycleState::Idle, ..Self::new() }
    }

    /// Returns the id of the open turn, simulated or not.
    #[must_use]
    pub(crate) fn open_turn(&self) -> Option<&TurnId> {
        match &self.state {
            LifecycleState::Local(local) => Some(&local.id),
            _ => self.turn().map(|turn| &turn.id),
        }
    }

    /// Returns whether both workers have equal rows. The state of the runtime and the gate of the
    /// queue are not stored.
    #[must_use]
    pub(crate) fn is_stored_like(&self, other: &Self) -> bool {
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
    pub(crate) fn turn(&self) -> Option<&RuntimeTurn> {
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
    pub(crate) fn rests(&self) -> bool {
        self.state == LifecycleState::Idle
            && self.link == RuntimeStatus::Ready
            && self.approvals.is_empty()
            && self.restart == Restart::None
            && self.hibernation == Hibernation::None
    }

    /// Returns the public state. `waiting_approval` is derived from the open approvals.
    #[must_use]
    pub(crate) fn public_state(&self) -> WorkerState {
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

    /// Applies an input.
    ///
    /// # Errors
    /// The error of the client, with its code. `INTERNAL_ERROR` for an impossible input of a
    /// damaged or foreign journal. The worker is unchanged.
    pub(crate) fn step(&self, input: WorkerInput) -> subagent_protocol::Result<Transition> {
        super::step::step(self, input)
    }
}

impl Default for Worker {
    fn default() -> Self {
        Self::new()
    }
}
