//! The inputs that change a worker: what clients ask, what the journal reports, what the daemon notices.

use serde_json::Value;
use subagent_protocol::Error;
use subagent_protocol::budget::Money;
use subagent_protocol::data::questions::{DecidingRule, PolicyViolated};
use subagent_protocol::data::turns::TurnInput;
use subagent_protocol::time::Timestamp;

use subagent_protocol::ids::{RequestId, TurnId};
use subagent_protocol::record::{ApprovalClosedReason, SessionOrigin, TurnEnd};

use crate::model::{
    By, ElicitationReply, HooksOutcome, NewRule, PermissionDecision, QueuePosition, Queued, RateLimit,
    RuntimeStatus, TaskEnding,
};

/// An input of the rules.
#[derive(Debug, Clone, PartialEq)]
pub enum WorkerInput {
    /// A client sends a message.
    Send {
        /// Id of the new turn.
        turn_id: TurnId,
        /// Data of its `message.sent`.
        message: Value,
        /// Its input in `turn.started`.
        input: TurnInput,
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
        /// The rule that decides it.
        rule: DecidingRule,
    },
    /// The agent made a call that a rule of the owner denies.
    Violation {
        /// The turn of the call, if there was one.
        turn: Option<u64>,
        /// The call and the rule.
        call: PolicyViolated,
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
    /// A client stops the worker and accepts that its agent may go on at a place that does not answer.
    GiveUp,
    /// A client stops the worker for its removal, if it has failed and has no runtime.
    Retire,
    /// A client restarts the runtime.
    Restart {
        /// Whether this cancels an open turn.
        force: bool,
        /// Whether the client accepts that the old runtime may go on at a place that does not answer.
        beside: bool,
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
        /// How the engine has ended the place of the runtime, for messages; `None` without one.
        place: Option<String>,
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
        limit: RateLimit,
        /// The failure: a [`WorkerInput::TurnEnd`] or a [`WorkerInput::StartFailed`].
        input: Box<WorkerInput>,
    },
    /// The time of the parking is over.
    ParkingOver,
}

impl WorkerInput {
    /// Returns the order that queues its message instead of starting a turn, because no slot is
    /// free. `None` if it cannot be queued.
    #[must_use]
    pub fn waiting(self, sender: Option<i64>) -> Option<Self> {
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

impl WorkerInput {
    /// Returns the input with the rate limit that its error reports, if any. `at` is the time of
    /// the record.
    #[must_use]
    pub fn with_limit(self, at: Timestamp) -> Self {
        let error = match &self {
            Self::TurnEnd { end: TurnEnd::Failed { error }, .. } | Self::StartFailed { error } => error,
            _ => return self,
        };
        match RateLimit::reported(error, at) {
            Some(limit) => Self::RateLimited { limit, input: Box::new(self) },
            None => self,
        }
    }
}

/// An input about questions of a worker, beside a single decision.
#[derive(Debug, Clone, PartialEq)]
pub enum QuestionInput {
    /// Decides several permission requests: all or none.
    DecideAll {
        /// The decisions by request.
        choices: Vec<(RequestId, PermissionDecision)>,
        /// Note of the owner.
        note: Option<String>,
    },
    /// Decides a permission request and adds a rule for the same decision in future.
    DecideAlways {
        /// The decided permission request.
        request_id: RequestId,
        /// The decision that becomes standing.
        choice: PermissionDecision,
        /// Note of the owner.
        note: Option<String>,
        /// The rule to add.
        rule: NewRule,
    },
    /// A question was not answered in time.
    Expired {
        /// Id of the expired question.
        request_id: RequestId,
        /// What the expiry does.
        expiry: Expiry,
    },
}

/// The effect of an expired question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expiry {
    /// Decides a permission request this way.
    Decide(PermissionDecision),
    /// Declines the expired elicitation.
    Decline,
    /// Cancels the turn that asked.
    Cancel,
}
