//! The facts that follow from an input. They are stored in the transaction of the new state.

use serde_json::Value;
use subagent_protocol::Error;
use subagent_protocol::data::EventData;
use subagent_protocol::data::questions::DecidingRule;
use subagent_protocol::event::EventType;
use subagent_protocol::hook::HookFailed;
use subagent_protocol::secret::Secret;
use subagent_protocol::time::Timestamp;

use subagent_protocol::ids::{RequestId, RuleId, TurnId};
use subagent_protocol::state::{ApprovalStatus, Carrier, Dispatched, QuestionKind, TurnStatus};

use crate::model::{Cancel, Queued, Spent, TaskEnding};

/// A fact that is stored in the same transaction as the new state.
#[derive(Debug, Clone, PartialEq)]
#[allow(clippy::large_enum_variant, reason = "a transaction has a few facts, for a short time")]
pub enum Fact {
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
        /// Data of the event.
        data: EventData,
        /// Number of its turn.
        turn: Option<u64>,
    },
    /// The event `message.sent`, with the contents of attached files.
    MessageSent {
        /// The message as it is stored.
        message: Value,
        /// Number of its turn.
        turn: u64,
    },
    /// The error to show; `None` clears it.
    LastError(Option<Error>),
    /// The worker must not run any more.
    DesiredStop,
    /// Usage to charge to the worker's accounts.
    Spent(Spent),
}

impl Fact {
    /// Returns the type of the event, if this is one.
    #[must_use]
    pub fn event_type(&self) -> Option<EventType> {
        match self {
            Self::Event { data, .. } => Some(data.event_type()),
            Self::MessageSent { .. } => Some(EventType::MessageSent),
            _ => None,
        }
    }

    /// Returns the event of a failed hook.
    pub fn hook_failed(failed: &HookFailed, turn: Option<u64>) -> Self {
        Self::Event { data: EventData::HookFailed(failed.clone()), turn }
    }
}

/// Facts of the inbox, beside the questions themselves.
#[derive(Debug, Clone, PartialEq)]
pub enum InboxFact {
    /// The rule that makes a request ask.
    AskedFor {
        /// Id of the request.
        request_id: RequestId,
        /// The rule that makes it ask.
        rule: DecidingRule,
    },
    /// A decision added this rule.
    RuleAdded(NewRule),
}

/// A rule derived from a decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewRule {
    /// Id of the new rule.
    pub rule_id: RuleId,
    /// Text of the rule, without its action.
    pub rule: String,
    /// Action of the rule, such as `allow`.
    pub action: &'static str,
    /// Whether it applies to all workers of the controller.
    pub for_controller: bool,
    /// The decision that it was derived from.
    pub request_id: RequestId,
    /// Time of that decision.
    pub created_at: Timestamp,
}
