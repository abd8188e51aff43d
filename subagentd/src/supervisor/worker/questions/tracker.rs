//! State of questions and rules that the state machine does not track.

use subagent_core::model::Fact;
use subagent_protocol::Error;
use subagent_protocol::ids::{RequestId, WorkerId};
use subagent_protocol::start::ClientRules;
use subagent_protocol::time::Timestamp;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::supervisor::hooks::RunningHooks;
use crate::supervisor::policy::PolicyTracker;
use crate::supervisor::start::spec::Spec;
use crate::supervisor::worker::STORE_RETRY;

/// The open questions of a worker, and the rules that answer some of them.
pub(crate) struct QuestionTracker {
    /// The policy at work, if there are any rules.
    pub(crate) policy: Option<PolicyTracker>,
    /// Hooks that run for permission requests.
    pub(crate) hooks: RunningHooks,
    /// Deadlines of questions, earliest first. Some questions may be closed already.
    pub(crate) deadlines: Vec<(RequestId, Timestamp)>,
    /// Whether the store may contain further deadlines.
    pub(crate) stale: bool,
    /// Notifies about changes of owner rules of any worker.
    pub(crate) rules: watch::Receiver<u64>,
    /// Whether the rules must be read again and applied to pending requests.
    pub(crate) rules_stale: bool,
    /// When to ask the store again after a failure.
    pub(crate) again: Option<Instant>,
}

/// The stored rules of a worker.
pub(crate) struct Rules {
    pub(crate) watch: Option<PolicyTracker>,
    /// Whether there are owner rules.
    pub(crate) any: bool,
}

impl QuestionTracker {
    /// Initial state of an adopted worker, before anything was read.
    pub(crate) fn new(rules: watch::Receiver<u64>) -> Self {
        Self {
            policy: None,
            hooks: RunningHooks::default(),
            deadlines: Vec::new(),
            stale: true,
            rules,
            rules_stale: true,
            again: None,
        }
    }

    /// Updates the state from committed facts.
    pub(crate) fn see(&mut self, facts: &[Fact]) {
        self.stale |= facts
            .iter()
            .any(|fact| matches!(fact, Fact::ApprovalOpened { .. } | Fact::ApprovalReleased { .. }));
    }

    /// Takes over stored rules. Returns whether there are owner rules.
    pub(crate) fn take_rules(&mut self, rules: Rules) -> bool {
        self.policy = match (self.policy.take(), rules.watch) {
            (Some(before), Some(rules)) => Some(before.with_rules_of(rules)),
            (_, rules) => rules,
        };
        rules.any
    }

    /// Schedules another attempt after a failure of the store.
    pub(crate) fn try_again(&mut self, worker: &WorkerId, error: &Error) {
        tracing::error!(%worker, %error, "the questions of a worker cannot be read; trying again");
        self.again = Some(Instant::now() + STORE_RETRY);
    }

    /// Returns what a runtime asks about. If the stored rules are unreadable, it asks about
    /// everything, and the owner answers.
    pub(crate) fn client_rules(&self, spec: &Spec) -> Option<ClientRules> {
        spec.policy.as_ref()?;
        let all = || ClientRules { read: true, edit: true, execute: true, guarded: Vec::new() };
        Some(self.policy.as_ref().map_or_else(all, PolicyTracker::client_rules))
    }
}
