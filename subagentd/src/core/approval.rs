//! One permission request: `pending → decided → delivered | undelivered`, `pending → canceled | lost`.

use subagent_protocol::record::ApprovalClosedReason;
use subagent_protocol::state::ApprovalStatus;

/// A permission request of an agent that is not over yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The turn that asks; `None` if the agent asked outside of any.
    pub turn: Option<u64>,
    /// How far it is.
    pub approval: Approval,
}

/// How far a permission request is that is not over yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Approval {
    /// Nobody has decided.
    Pending,
    /// Decided by somebody, to be written by the runtime.
    Decided {
        /// The option to select.
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

impl Approval {
    /// The word that is stored and printed.
    #[must_use]
    pub const fn status(&self) -> ApprovalStatus {
        match self {
            Self::Pending => ApprovalStatus::Pending,
            Self::Decided { .. } | Self::DecidedByCancel => ApprovalStatus::Decided,
        }
    }

    /// How the request ends. Every input ends it, so that none can stay open by accident.
    #[must_use]
    pub fn end(&self, input: &ApprovalInput) -> ApprovalStatus {
        use ApprovalInput as In;
        match (self, input) {
            (Self::Pending, In::Lost) => ApprovalStatus::Lost,
            (Self::Pending, In::Closed(_) | In::AnswerRefused) => ApprovalStatus::Canceled,
            // An answer that we do not know of: the journal is right, somebody decided before we lost our memory.
            (Self::Pending | Self::Decided { .. } | Self::DecidedByCancel, In::AnswerWritten) => {
                ApprovalStatus::Delivered
            }
            (Self::DecidedByCancel, In::Closed(ApprovalClosedReason::TurnCanceled)) => {
                ApprovalStatus::Delivered
            }
            (Self::Decided { .. } | Self::DecidedByCancel, In::Closed(_) | In::AnswerRefused | In::Lost) => {
                ApprovalStatus::Undelivered
            }
        }
    }
}
