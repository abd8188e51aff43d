//! Pending questions in the actor: decides those whose time is over, and those that a new rule
//! answers.

pub(crate) mod client_rules;
pub(crate) mod elicitation;
pub(crate) mod hooks;

use std::path::Path;
use std::time::Duration;

use subagent_core::model::{
    Approval, Expiry, Fact, LifecycleState, PermissionDecision, QuestionInput, WorkerInput, decision,
};
use subagent_protocol::api::{Decide, OnTimeout};
use subagent_protocol::ids::RequestId;
use subagent_protocol::state::{Carrier, QuestionKind};
use subagent_protocol::time::Timestamp;
use subagent_protocol::{Code, Error, Result};
use tokio::sync::watch;
use tokio::time::Instant;

use super::actor::Actor;
use crate::store::Connection;
use crate::store::questions::{self, ApprovalRow, inbox, owner_rules};
use crate::store::turns::tool_calls;
use crate::supervisor::policy::{self, PolicyTracker};
use crate::supervisor::turns::agent_change::Changed;
use crate::supervisor::{entropy, views};

/// Delay after a failure of the store.
const STORE_RETRY: Duration = Duration::from_secs(1);

/// State of questions and rules that the state machine does not track.
pub(crate) struct QuestionTracker {
    /// Deadlines of questions, earliest first. Some questions may be closed already.
    deadlines: Vec<(RequestId, Timestamp)>,
    /// Whether the store may contain further deadlines.
    stale: bool,
    /// Notifies about changes of owner rules of any worker.
    pub(crate) rules: watch::Receiver<u64>,
    /// Whether the rules must be read again and applied to pending requests.
    pub(crate) rules_stale: bool,
    /// When to ask the store again after a failure.
    again: Option<Instant>,
}

/// The stored rules of a worker.
pub(crate) struct Rules {
    watch: Option<PolicyTracker>,
    /// Whether there are owner rules.
    any: bool,
}

impl QuestionTracker {
    /// Initial state of an adopted worker, before anything was read.
    pub(crate) fn new(rules: watch::Receiver<u64>) -> Self {
        Self { deadlines: Vec::new(), stale: true, rules, rules_stale: true, again: None }
    }

    /// Updates the state from committed facts.
    pub(crate) fn see(&mut self, facts: &[Fact]) {
        self.stale |= facts
            .iter()
            .any(|fact| matches!(fact, Fact::ApprovalOpened { .. } | Fact::ApprovalReleased { .. }));
    }
}

impl Actor {
    /// Returns the question that expires next, its outcome and its deadline.
    fn expires(&self) -> Option<(RequestId, OnTimeout, Timestamp)> {
        let on_timeout = self.spec.answer_time?.on_timeout;
        if !self.settled || self.retry.is_some() || self.questions.again.is_some() {
            return None;
        }
        let pending = |request_id: &RequestId| match &self.worker.state {
            LifecycleState::Local(local) if local.request_id == *request_id => true,
            _ => {
                let asked = self.worker.approvals.get(request_id);
                asked.is_some_and(|asked| asked.approval == Approval::Pending)
            }
        };
        let next = self.questions.deadlines.iter().find(|(request_id, _)| pending(request_id))?;
        Some((next.0.clone(), on_timeout, next.1))
    }

    /// Returns when questions need attention next.
    pub(crate) fn expires_at(&self) -> Option<Instant> {
        if self.questions.again.is_some() {
            return self.questions.again;
        }
        let (_, _, deadline) = self.expires()?;
        let left = u64::try_from(deadline.0.saturating_sub(entropy::now().0)).unwrap_or(0);
        Instant::now().checked_add(Duration::from_millis(left))
    }

    /// Decides an expired question, if there is one. The next one follows in the next iteration.
    pub(crate) async fn expire(&mut self) {
        self.questions.again.take_if(|again| *again <= Instant::now());
        let Some((request_id, on_timeout, deadline)) = self.expires() else { return };
        if deadline > entropy::now() {
            return;
        }
        let expiry = match on_timeout {
            OnTimeout::Cancel => Expiry::Cancel,
            OnTimeout::Deny => match self.denial(&request_id).await {
                Ok(expiry) => expiry,
                Err(error) => {
                    return self.tries_again(&error);
                }
            },
        };
        subagent_failpoint::hit("decision.before_commit");
        self.apply(WorkerInput::Inbox(QuestionInput::Expired { request_id, expiry })).await;
        subagent_failpoint::hit("decision.after_commit");
    }

    /// Returns the denial that fits this question.
    async fn denial(&self, request_id: &RequestId) -> Result<Expiry> {
        let (id, asked) = (self.id, request_id.clone());
        let read = self
            .shared
            .store
            .read(move |connection| Ok(questions::list(connection, id, Some(asked.as_str()))?.pop()));
        let row = read.await?.ok_or_else(|| Error::new(Code::Internal, "a question is not stored"))?;
        Ok(match row.kind {
            QuestionKind::Elicitation => Expiry::Decline,
            QuestionKind::Permission => Expiry::Decide(denied(&row)),
        })
    }

    /// Reads new deadlines, and applies changed rules to pending requests.
    pub(crate) async fn look_after_questions(&mut self) {
        if self.questions.again.is_some() {
            return;
        }
        if self.questions.stale && self.spec.answer_time.is_some() {
            let id = self.id;
            match self.shared.store.read(move |connection| inbox::deadlines(connection, id)).await {
                Ok(deadlines) => (self.questions.deadlines, self.questions.stale) = (deadlines, false),
                Err(error) => self.tries_again(&error),
            }
        }
        if self.questions.rules_stale && self.settled {
            match self.read_rules().await {
                // Even if the owner rules did not change, the policy may have been unreadable
                // before.
                Ok(_) => self.judge_again().await,
                Err(error) => self.tries_again(&error),
            }
        }
    }

    fn tries_again(&mut self, error: &Error) {
        tracing::error!(worker = %self.worker_id, %error, "the questions of a worker cannot be read; trying again");
        self.questions.again = Some(Instant::now() + STORE_RETRY);
    }

    /// Reads the stored rules. Returns whether there are owner rules.
    pub(crate) async fn read_rules(&mut self) -> Result<bool> {
        let rules = self.shared.store.read(self.rules_that_are_stored()).await?;
        Ok(self.take_rules(rules))
    }

    /// Returns the query for the stored rules.
    pub(crate) fn rules_that_are_stored(&self) -> impl FnOnce(&Connection) -> Result<Rules> + Send + use<> {
        let (id, known) = (self.id, self.watch.is_some());
        let turn = self.worker.turn().map(|open| open.no);
        let (spec, cwd) = (self.spec.policy.clone(), self.cwd.clone());
        move |connection| {
            let added = policy::added(connection, id, spec.as_ref())?;
            let workspace = owner_rules::workspace_of(connection, id)?;
            let mut watch = PolicyTracker::of(spec.as_ref(), &added, &workspace, Path::new(&cwd));
            if let (false, Some(watch), Some(turn)) = (known, &mut watch, turn) {
                // The calls of the open turn from before there were rules.
                tool_calls::for_each_report(connection, id, turn, |record, body| watch.recall(record, body))?;
            }
            Ok(Rules { watch, any: added.any() })
        }
    }

    pub(crate) fn take_rules(&mut self, rules: Rules) -> bool {
        self.watch = match (self.watch.take(), rules.watch) {
            (Some(before), Some(rules)) => Some(before.with_rules_of(rules)),
            (_, rules) => rules,
        };
        rules.any
    }

    /// Takes over a definition that was stored with the opened turn.
    pub(crate) fn take_changed(&mut self, changed: Option<Changed>) {
        let Some(Changed { spec, watch, any }) = changed else { return };
        self.spec = *spec;
        self.questions.rules_stale = self.take_rules(Rules { watch, any });
    }

    /// Applies the policy to pending requests.
    async fn judge_again(&mut self) {
        let waits = self.worker.approvals.values().any(|asked| asked.approval == Approval::Pending);
        let Some(watch) = self.watch.clone().filter(|_| waits) else {
            self.questions.rules_stale = false;
            return;
        };
        let id = self.id;
        let judged = self.shared.store.read(move |connection| {
            let rows = questions::list(connection, id, None)?;
            let rows = rows
                .into_iter()
                .filter(|row| row.kind == QuestionKind::Permission && row.carrier == Carrier::Runtime);
            Ok(rows.filter_map(|row| watch.judge(&row.asked)).collect::<Vec<WorkerInput>>())
        });
        match judged.await {
            Ok(inputs) => {
                self.questions.rules_stale = false;
                for input in inputs {
                    self.apply(input).await;
                }
            }
            Err(error) => self.tries_again(&error),
        }
    }
}

/// Returns the option that denies a request, or `cancelled` if there is none.
fn denied(row: &ApprovalRow) -> PermissionDecision {
    let options = views::question::approval_view(row).options;
    let decide = |word: &str| Decide { decision: Some(word.to_owned()), ..Decide::default() };
    let once = options.iter().find(|option| option.kind.as_deref() == Some("reject_once"));
    match once {
        Some(option) => PermissionDecision {
            option_id: Some(option.id.clone()),
            alias: Some(option.alias.clone()),
            decision: "deny".to_owned(),
        },
        None => {
            decision::choose(&options, &decide("deny")).unwrap_or_else(|_| PermissionDecision::cancelled())
        }
    }
}
