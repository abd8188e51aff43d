//! How a turn went, as a word and as an exit code: the one table for `run`, `send`, `wait`, `watch` and `result`.
//!
//! `docs/ci.md` and `run --help` document it. Must not know how an outcome is found out.

/// The time limit of the command is over.
pub const TIMEOUT: u8 = 13;
/// The final message does not meet the schema.
pub const SCHEMA_NOT_MET: u8 = 14;
/// A question is open that the command cannot answer.
pub const NEEDS_ANSWER: u8 = 15;

/// How a turn ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TurnExitStatus {
    /// By the event `turn.completed`.
    Completed,
    /// By the event `turn.failed`.
    Failed,
    /// By the event `turn.canceled`.
    Canceled,
}

/// What a turn came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TurnOutcome {
    /// The agent did what it was asked for.
    Completed,
    /// The turn failed with an error.
    Failed,
    /// The turn was canceled.
    Canceled,
    /// A permission was denied, or the agent did what a rule denies.
    PermissionDenied,
    /// The agent refused (stop reason `refusal`).
    Refusal,
    /// The model's limit of tokens ended the turn (stop reason `max_tokens`).
    MaxTokens,
    /// The limit of model requests ended the turn (stop reason `max_turn_requests`).
    MaxTurnRequests,
    /// A form or a link was turned away.
    TurnedAway,
}

impl TurnOutcome {
    /// Returns the outcome of a turn from its end, the agent's stop reason, and the number of denied requests and of forms
    /// and links that were turned away.
    #[must_use]
    pub fn of(end: TurnExitStatus, stop_reason: Option<&str>, denied: usize, turned_away: usize) -> Self {
        match (end, stop_reason) {
            (TurnExitStatus::Failed, _) => Self::Failed,
            _ if denied > 0 => Self::PermissionDenied,
            (TurnExitStatus::Canceled, _) => Self::Canceled,
            (TurnExitStatus::Completed, Some("refusal")) => Self::Refusal,
            (TurnExitStatus::Completed, Some("max_tokens")) => Self::MaxTokens,
            (TurnExitStatus::Completed, Some("max_turn_requests")) => Self::MaxTurnRequests,
            (TurnExitStatus::Completed, _) if turned_away > 0 => Self::TurnedAway,
            (TurnExitStatus::Completed, _) => Self::Completed,
        }
    }

    /// The word in JSON.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Canceled => "canceled",
            Self::PermissionDenied => "permission_denied",
            Self::Refusal => "refusal",
            Self::MaxTokens => "max_tokens",
            Self::MaxTurnRequests => "max_turn_requests",
            Self::TurnedAway => "turned_away",
        }
    }

    /// The word for people.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Completed => "done",
            Self::Failed => "failed",
            Self::Canceled => "canceled",
            Self::PermissionDenied => "denied",
            Self::Refusal => "refused",
            Self::MaxTokens => "token limit",
            Self::MaxTurnRequests => "request limit",
            Self::TurnedAway => "turned away",
        }
    }

    /// Returns the exit code; 0 only for `Completed`.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::Completed => 0,
            Self::Failed => 10,
            Self::Canceled => 11,
            Self::PermissionDenied => 12,
            Self::Refusal => 16,
            Self::MaxTokens => 17,
            Self::MaxTurnRequests => 18,
            Self::TurnedAway => 19,
        }
    }

    /// What people read about an outcome that is not success; empty for the others.
    #[must_use]
    pub const fn sentence(self) -> &'static str {
        match self {
            Self::Completed => "",
            Self::Failed => "the turn failed",
            Self::Canceled => "the turn was canceled",
            Self::PermissionDenied => "a permission was denied",
            Self::Refusal => "the agent refused",
            Self::MaxTokens => "the turn ended at the model's limit of tokens",
            Self::MaxTurnRequests => "the turn ended at the limit of model requests",
            Self::TurnedAway => "a form or a link was turned away",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_outcome_has_its_code() {
        for (end, reason, denied, turned_away, outcome, code) in [
            (TurnExitStatus::Completed, "end_turn", 0, 0, TurnOutcome::Completed, 0),
            (TurnExitStatus::Failed, "", 1, 1, TurnOutcome::Failed, 10),
            (TurnExitStatus::Canceled, "cancelled", 0, 1, TurnOutcome::Canceled, 11),
            (TurnExitStatus::Canceled, "cancelled", 1, 0, TurnOutcome::PermissionDenied, 12),
            (TurnExitStatus::Completed, "refusal", 1, 0, TurnOutcome::PermissionDenied, 12),
            (TurnExitStatus::Completed, "refusal", 0, 1, TurnOutcome::Refusal, 16),
            (TurnExitStatus::Completed, "max_tokens", 0, 0, TurnOutcome::MaxTokens, 17),
            (TurnExitStatus::Completed, "max_turn_requests", 0, 0, TurnOutcome::MaxTurnRequests, 18),
            (TurnExitStatus::Completed, "end_turn", 0, 1, TurnOutcome::TurnedAway, 19),
        ] {
            let found = TurnOutcome::of(end, Some(reason), denied, turned_away);
            assert_eq!((found, found.code()), (outcome, code), "{reason}");
        }
    }
}
