//! One question of an agent, a permission request or an elicitation: `pending → decided → delivered | undelivered`, `pending → canceled | lost`.

use subagent_protocol::event::EventType;
use subagent_protocol::record::ApprovalClosedReason;
use subagent_protocol::state::{ApprovalStatus, QuestionKind};

/// A question of an agent that is not over yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// What is waited for.
    pub kind: QuestionKind,
    /// The turn that asks; `None` if the agent asked outside of any.
    pub turn: Option<u64>,
    /// How far it is.
    pub approval: Approval,
}

/// How far a question is that is not over yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Approval {
    /// Hooks run for it. Nothing is asked until they have answered.
    Held,
    /// Nobody has decided.
    Pending,
    /// Decided by somebody, to be written by the runtime.
    Decided {
        /// The option to select; of an elicitation the action, and what was filled in is the store's alone.
        option_id: Option<String>,
    },
    /// Decided by the cancel of its turn: the runtime answers `cancelled` when it takes the cancel.
    DecidedByCancel,
}

/// What happens to a permission request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApprovalInput {
    /// The runtime journaled that it is writing our answer.
    AnswerWritten,
    /// The runtime refused our answer: it does not know the request any more.
    AnswerRefused,
    /// It ended without an answer of ours.
    Closed(ApprovalClosedReason),
    /// The runtime is gone.
    Lost,
}

/// The event of a question that ends without an answer in this way, if it has one.
#[must_use]
pub const fn event_of(kind: QuestionKind, end: ApprovalStatus) -> Option<EventType> {
    match (end, kind) {
        (ApprovalStatus::Lost, QuestionKind::Permission) => Some(EventType::ApprovalLost),
        (ApprovalStatus::Lost, QuestionKind::Elicitation) => Some(EventType::ElicitationLost),
        (ApprovalStatus::Canceled, QuestionKind::Permission) => Some(EventType::ApprovalCanceled),
        (ApprovalStatus::Canceled, QuestionKind::Elicitation) => Some(EventType::ElicitationCanceled),
        _ => None,
    }
}

impl Approval {
    /// The word that is stored and printed.
    #[must_use]
    pub const fn status(&self) -> ApprovalStatus {
        match self {
            Self::Held | Self::Pending => ApprovalStatus::Pending,
            Self::Decided { .. } | Self::DecidedByCancel => ApprovalStatus::Decided,
        }
    }

    /// How the request ends. Every input ends it, so that none can stay open by accident.
    #[must_use]
    pub fn end(&self, input: &ApprovalInput) -> ApprovalStatus {
        use ApprovalInput as In;
        match (self, input) {
            (Self::Held | Self::Pending, In::Lost) => ApprovalStatus::Lost,
            (Self::Held | Self::Pending, In::Closed(_) | In::AnswerRefused) => ApprovalStatus::Canceled,
            // An answer that we do not know of: the journal is right, somebody decided before we lost our memory.
            (
                Self::Held | Self::Pending | Self::Decided { .. } | Self::DecidedByCancel,
                In::AnswerWritten,
            ) => ApprovalStatus::Delivered,
            (Self::DecidedByCancel, In::Closed(ApprovalClosedReason::TurnCanceled)) => {
                ApprovalStatus::Delivered
            }
            (Self::Decided { .. } | Self::DecidedByCancel, In::Closed(_) | In::AnswerRefused | In::Lost) => {
                ApprovalStatus::Undelivered
            }
        }
    }
}
