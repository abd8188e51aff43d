//! The states that users see. How they change is the business of the daemon's `core`.

use serde::{Deserialize, Serialize};

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum $name { $($(#[$vdoc])* #[serde(rename = $word)] $variant),+ }

        impl $name {
            /// All values, in the order of their definition.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// The word that is printed and stored.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }

            /// Reads the word back.
            #[must_use]
            pub fn parse(word: &str) -> Option<Self> {
                match word { $($word => Some(Self::$variant),)+ _ => None }
            }
        }

        #[cfg(feature = "openapi")]
        $crate::openapi::words!($name);

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}
pub(crate) use words;

words! {
    /// Why the messages that wait for a worker are not sent.
    QueuePause {
        /// A turn failed.
        TurnFailed = "turn_failed",
        /// A turn was lost with its runtime.
        TurnLost = "turn_lost",
        /// The agent did what a rule of the owner denies.
        PolicyViolation = "policy_violation",
        /// The agent could not be started.
        StartFailed = "start_failed",
        /// Somebody else ended the worker's runtime in the middle of a turn.
        RuntimeEnded = "runtime_ended",
        /// A budget is used up, or it is not known how much of it is.
        Budget = "budget",
        /// The state was restored from a backup: some of it may have been sent since.
        Restored = "restored",
    }
}

words! {
    /// What a worker is doing. `waiting_approval` is derived: a turn runs and at least one approval is open.
    WorkerState {
        /// Its first agent process is being started.
        Starting = "starting",
        /// Ready for a turn (its runtime may have to be started again for it).
        Idle = "idle",
        /// A turn was accepted and has not ended.
        Running = "running",
        /// A turn runs and the agent waits for at least one permission.
        WaitingApproval = "waiting_approval",
        /// A cancel was accepted and the turn has not ended.
        Canceling = "canceling",
        /// The agent could not be started.
        Error = "error",
        /// Ended for good.
        Stopped = "stopped",
    }
}

words! {
    /// What became of a permission request.
    ApprovalStatus {
        /// Nobody has decided yet.
        Pending = "pending",
        /// Decided and stored, not yet written to the agent.
        Decided = "decided",
        /// The decision was written to the agent.
        Delivered = "delivered",
        /// The decision could not be written any more: the turn or the agent had ended.
        Undelivered = "undelivered",
        /// The agent withdrew it, the turn was canceled, or the worker was stopped.
        Canceled = "canceled",
        /// Its deadline passed.
        Expired = "expired",
        /// The runtime that asked is gone; nobody answered in the user's name.
        Lost = "lost",
    }
}

words! {
    /// What an agent waits for.
    QuestionKind {
        /// The choice of an option of a permission request.
        Permission = "permission",
        /// Values for a form, or a visit to a link.
        Elicitation = "elicitation",
    }
}

words! {
    /// How an elicitation is answered, in ACP's words.
    ElicitationAction {
        /// With what was asked for.
        Accept = "accept",
        /// Not at all, on purpose.
        Decline = "decline",
        /// Not at all: somebody turned away, or the turn was canceled.
        Cancel = "cancel",
    }
}

words! {
    /// How a turn ended, or that it has not.
    TurnStatus {
        /// Accepted and stored; the prompt may not have been sent yet.
        Accepted = "accepted",
        /// The agent answered the prompt.
        Completed = "completed",
        /// It ended with an error or was lost.
        Failed = "failed",
        /// It ended after a cancel.
        Canceled = "canceled",
    }
}

words! {
    /// Who carries a turn out; the word is `raw.runtime` of its events.
    Carrier {
        /// The worker's runtime, with its agent.
        Runtime = "acp-stdio",
        /// The daemon alone: a simulated turn (debug mode), of which no agent hears.
        Local = "local",
    }
}

words! {
    /// Whether the prompt of a turn reached the agent.
    Dispatched {
        /// The first byte was never written.
        No = "no",
        /// It may have been written; nobody can tell any more.
        Maybe = "maybe",
        /// It was written and the agent was heard afterwards.
        Yes = "yes",
    }
}

words! {
    /// What a runtime should be doing, stored before anything is done about it.
    Desired {
        /// Run its agent.
        Run = "run",
        /// End.
        Stop = "stop",
    }
}

impl WorkerState {
    /// Whether a turn is open in this state.
    #[must_use]
    pub const fn has_open_turn(self) -> bool {
        matches!(self, Self::Running | Self::WaitingApproval | Self::Canceling)
    }
}

impl TurnStatus {
    /// Whether a turn with this status can never change any more.
    #[must_use]
    pub const fn is_terminal(self) -> bool {
        !matches!(self, Self::Accepted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_round_trip() {
        for state in WorkerState::ALL {
            assert_eq!(WorkerState::parse(state.as_str()), Some(*state));
        }
        assert_eq!(WorkerState::parse("lost"), None);
    }
}
