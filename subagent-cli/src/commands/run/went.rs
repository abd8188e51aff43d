//! How a run went, in words and as an exit code.

use super::drive::RunEnd;
use crate::exit_code::{SCHEMA_NOT_MET, TIMEOUT, TurnOutcome};
use crate::output::style::Style;

/// How a run went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Went {
    Turn(TurnOutcome),
    Timeout,
    SchemaNotMet,
    Interrupted,
}

impl Went {
    /// The word in JSON.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Turn(outcome) => outcome.word(),
            Self::Timeout => "timeout",
            Self::SchemaNotMet => "schema_not_met",
            Self::Interrupted => "interrupted",
        }
    }

    /// The word for people.
    pub(crate) const fn label(self) -> &'static str {
        match self {
            Self::Turn(outcome) => outcome.label(),
            Self::Timeout => "timed out",
            Self::SchemaNotMet => "schema not met",
            Self::Interrupted => "interrupted",
        }
    }

    /// What to do next; nothing of a success, and of an error that says it itself.
    pub(crate) const fn advice(self) -> Option<&'static str> {
        match self {
            Self::Turn(outcome) => match outcome {
                TurnOutcome::Completed | TurnOutcome::Failed | TurnOutcome::Canceled => None,
                TurnOutcome::PermissionDenied => Some("allow it with --allow RULE if it was right"),
                TurnOutcome::Refusal => Some("change the prompt"),
                TurnOutcome::MaxTokens | TurnOutcome::MaxTurnRequests => Some("ask for less in one run"),
                TurnOutcome::TurnedAway => Some("say in the prompt what the agent asked for"),
            },
            Self::Timeout => Some("raise --timeout, or ask for less in one run"),
            Self::SchemaNotMet => Some("say in the prompt that the final message is this JSON"),
            Self::Interrupted => None,
        }
    }

    /// How the word looks.
    pub(crate) const fn style(self) -> Style {
        match self {
            Self::Turn(TurnOutcome::Completed) => Style::Good,
            Self::Turn(TurnOutcome::Failed) => Style::Bad,
            _ => Style::Attention,
        }
    }

    /// The exit code; of a run that is interrupted, what a shell makes of the signal.
    pub(crate) fn exit_code(self, ending: &RunEnd) -> u8 {
        match self {
            Self::Turn(outcome) => outcome.code(),
            Self::Timeout => TIMEOUT,
            Self::SchemaNotMet => SCHEMA_NOT_MET,
            Self::Interrupted => match ending {
                RunEnd::Signal(signal) => u8::try_from(128 + *signal as i32).unwrap_or(1),
                _ => 1,
            },
        }
    }
}
