//! A question of an agent (permission request or elicitation): `pending → decided → delivered |
//! undelivered`, `pending → canceled | lost`.

use subagent_protocol::data::EventData;
use subagent_protocol::data::questions::ApprovalOver;
use subagent_protocol::record::ApprovalClosedReason;

use subagent_protocol::state::{ApprovalStatus, QuestionKind};

/// An open question of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentRequest {
    /// Permission request or elicitation.
    pub kind: QuestionKind,
    /// Number of the asking turn. `None` if the agent asked outside of a turn.
    pub turn: Option<u64>,
    /// State of the question.
    pub approval: Approval,
}

/// State of an open question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Approval {
    /// Hooks run for the request. It is invisible until they have answered.
    Held,
    /// Waits for a decision.
    Pending,
    /// Decided. The runtime has not confirmed the delivery yet.
    Decided {
        /// The chosen option, or the action of an elicitation, whose content only the store has.
        option_id: Option<String>,
    },
    /// Decided by the cancel of its turn. The runtime answers `cancelled` when it takes the cancel.
    DecidedByCancel,
}

/// An event in the life of a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApprovalInput {
    /// The runtime journaled that it is writing the answer.
    AnswerWritten,
    /// The runtime refused the answer, because it does not know the request any more.
    AnswerRefused,
    /// The question ended without an answer of the daemon.
    Closed(ApprovalClosedReason),
    /// The runtime is gone.
    Lost,
}

/// Returns the event of a question that ends without an answer in this way, if there is one.
#[must_use]
pub(crate) fn event_of(kind: QuestionKind, end: ApprovalStatus, data: ApprovalOver) -> Option<EventData> {
    match (end, kind) {
        (ApprovalStatus::Lost, QuestionKind::Permission) => Some(EventData::ApprovalLost(data)),
        (ApprovalStatus::Lost, QuestionKind::Elicitation) => Some(EventData::ElicitationLost(data)),
        (ApprovalStatus::Canceled, QuestionKind::Permission) => Some(EventData::ApprovalCanceled(data)),
        (ApprovalStatus::Canceled, QuestionKind::Elicitation) => Some(EventData::ElicitationCanceled(data)),
        _ => None,
    }
}

impl Approval {
    /// Returns the public status, as it is stored and shown.
    #[must_use]
    pub const fn status(&self) -> ApprovalStatus {
        match self {
            Self::Held | Self::Pending => ApprovalStatus::Pending,
            Self::Decided { .. } | Self::DecidedByCancel => ApprovalStatus::Decided,
        }
    }

    /// Returns the final status. Every input ends the question, so that none stays open by
    /// accident.
    #[must_use]
    pub fn end(&self, input: &ApprovalInput) -> ApprovalStatus {
        use ApprovalInput as In;
        match (self, input) {
            (Self::Held | Self::Pending, In::Lost) => ApprovalStatus::Lost,
            (Self::Held | Self::Pending, In::Closed(_) | In::AnswerRefused) => ApprovalStatus::Canceled,
            // The journal reports an answer that the store does not know, as after a restore. The
            // journal is right.
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
