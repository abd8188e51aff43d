//! The states that users see. The daemon's `core` defines their transitions.

use serde::{Deserialize, Serialize};

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum $name { $($(#[$vdoc])* #[serde(rename = $word)] $variant),+ }

        impl $name {
            /// All values, in the order of their definition.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// Returns the word that is printed and stored.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }

            /// Parses the serialized word; `None` if unknown.
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
    /// Why a worker's queued messages are not sent.
    QueuePause {
        /// A turn of the worker failed.
        TurnFailed = "turn_failed",
        /// A turn was lost with its runtime.
        TurnLost = "turn_lost",
        /// The agent did something that a rule of the owner denies.
        PolicyViolation = "policy_violation",
        /// The agent could not be started.
        StartFailed = "start_failed",
        /// Another process ended the worker's runtime during a turn.
        RuntimeEnded = "runtime_ended",
        /// A budget is used up, or its usage is unknown.
        Budget = "budget",
        /// The state was restored from a backup: some messages may have been sent since.
        Restored = "restored",
    }
}

words! {
    /// Why a worker is parked: nothing is sent to its agent for a while.
    ParkReason {
        /// The model's provider limits the rate of requests.
        RateLimit = "rate_limit",
    }
}

words! {
    /// Why a worker is no longer parked.
    UnparkReason {
        /// The time of reset has come.
        Due = "due",
        /// Its owner resumed it.
        Resumed = "resumed",
        /// A turn was completed, so the limit is over.
        TurnCompleted = "turn_completed",
    }
}

words! {
    /// What happens to a worker whose turn fails for a rate limit.
    OnRateLimit {
        /// It is parked until the limit ends.
        Park = "park",
        /// The queue is paused, as after any other failure.
        Fail = "fail",
    }
}

words! {
    /// The state of a worker. `waiting_approval` is derived: a turn runs and at least
    /// one approval is open.
    WorkerState {
        /// Its first agent process is being started.
        Starting = "starting",
        /// Ready for a turn (its runtime may have to be restarted for it).
        Idle = "idle",
        /// A turn was accepted and has not ended.
        Running = "running",
        /// A turn runs and the agent waits for at least one permission.
        WaitingApproval = "waiting_approval",
        /// A cancel was accepted and the turn has not ended.
        Canceling = "canceling",
        /// The agent could not be started.
        Error = "error",
        /// The worker has ended permanently.
        Stopped = "stopped",
    }
}

words! {
    /// The status of a permission request.
    ApprovalStatus {
        /// It is not decided yet.
        Pending = "pending",
        /// Decided and stored, not yet written to the agent.
        Decided = "decided",
        /// The decision was written to the agent.
        Delivered = "delivered",
        /// The decision could not be written: the turn or the agent had ended.
        Undelivered = "undelivered",
        /// The agent withdrew it, the turn was canceled, or the worker was stopped.
        Canceled = "canceled",
        /// It reached its deadline.
        Expired = "expired",
        /// The runtime that asked is gone; no answer was sent in the user's name.
        Lost = "lost",
    }
}

words! {
    /// The kind of an agent's question.
    QuestionKind {
        /// The choice of an option of a permission request.
        Permission = "permission",
        /// Values for a form, or a visit to a link.
        Elicitation = "elicitation",
    }
}

words! {
    /// How an elicitation is answered, in ACP's terms.
    ElicitationAction {
        /// With the requested values.
        Accept = "accept",
        /// Explicitly without an answer.
        Decline = "decline",
        /// Without an answer: the user dismissed it, or the turn was canceled.
        Cancel = "cancel",
    }
}

words! {
    /// The status of a turn.
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
    /// What executes a turn; the word is `raw.runtime` of its events.
    Carrier {
        /// The worker's runtime, with its agent.
        Runtime = "acp-stdio",
        /// The daemon alone: a simulated turn (debug mode), without an agent.
        Local = "local",
    }
}

words! {
    /// Whether the prompt of a turn reached the agent.
    Dispatched {
        /// The first byte was never written.
        No = "no",
        /// It may have been written; the answer is lost.
        Maybe = "maybe",
        /// It was written, and the agent has responded since.
        Yes = "yes",
    }
}

words! {
    /// The desired state of a runtime, stored before any action.
    Desired {
        /// The runtime should run its agent.
        Run = "run",
        /// The runtime should end its agent.
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
    /// Whether a turn with this status is final.
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
