//! Pending questions in the actor: decides those whose time is over, and those that a new rule
//! answers.

pub(crate) mod client_rules;
pub(crate) mod elicitation;
pub(crate) mod hooks;
pub(crate) mod tracker;

use std::path::Path;
use std::time::Duration;

use subagent_core::model::{
    Approval, Expiry, LifecycleState, PermissionDecision, QuestionInput, WorkerInput, decision,
};
use subagent_protocol::api::{Decide, OnTimeout};
use subagent_protocol::ids::RequestId;
use subagent_protocol::state::{Carrier, QuestionKind};
use subagent_protocol::time::Timestamp;
use subagent_protocol::{Code, Error, Result};
use tokio::time::Instant;
use tracker::Rules;

use super::actor::Actor;
use crate::store::Connection;
use crate::store::questions::{self, ApprovalRow, inbox, owner_rules};
use crate::store::turns::tool_calls;
use crate::supervisor::policy::{self, PolicyTracker};
use crate::supervisor::{entropy, views};

/// Returns the question that expires next, its outcome and its deadline.
fn expires(actor: &Actor) -> Option<(RequestId, OnTimeout, Timestamp)> {
    let on_timeout = actor.spec.answer_time?.on_timeout;
    if !actor.serves() || actor.questions.again.is_some() {
        return None;
    }
    let pending = |request_id: &RequestId| match &actor.worker.state {
        LifecycleState::Local(local) if local.request_id == *request_id => true,
        _ => {
            let asked = actor.worker.approvals.get(request_id);
            asked.is_some_and(|asked| asked.approval == Approval::Pending)
        }
    };
    let next = actor.questions.deadlines.iter().find(|(request_id, _)| pending(request_id))?;
    Some((next.0.clone(), on_timeout, next.1))
}

/// Returns when questions need attention next.
pub(crate) fn expires_at(actor: &Actor) -> Option<Instant> {
    if actor.questions.again.is_some() {
        return actor.questions.again;
    }
    let (_, _, deadline) = expires(actor)?;
    let left = u64::try_from(deadline.0.saturating_sub(entropy::now().0)).unwrap_or(0);
    Instant::now().checked_add(Duration::from_millis(left))
}

/// Decides an expired question, if there is one. The next one follows in the next iteration.
pub(crate) async fn expire(actor: &mut Actor) {
    actor.questions.again.take_if(|again| *again <= Instant::now());
    let Some((request_id, on_timeout, deadline)) = expires(actor) else { return };
    if deadline > entropy::now() {
        return;
    }
    let expiry = match on_timeout {
        OnTimeout::Cancel => Expiry::Cancel,
        OnTimeout::Deny => match denial(actor, &request_id).await {
            Ok(expiry) => expiry,
            Err(error) => {
                return actor.questions.try_again(&actor.identity.worker_id, &error);
            }
        },
    };
    subagent_failpoint::hit("decision.before_commit");
    actor.apply(WorkerInput::Inbox(QuestionInput::Expired { request_id, expiry })).await;
    subagent_failpoint::hit("decision.after_commit");
}

/// Returns the denial that fits this question.
async fn denial(actor: &Actor, request_id: &RequestId) -> Result<Expiry> {
    let (id, asked) = (actor.identity.id, request_id.clone());
    let read = actor
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
pub(crate) async fn check(actor: &mut Actor) {
    if actor.questions.again.is_some() {
        return;
    }
    if actor.questions.stale && actor.spec.answer_time.is_some() {
        let id = actor.identity.id;
        match actor.shared.store.read(move |connection| inbox::deadlines(connection, id)).await {
            Ok(deadlines) => (actor.questions.deadlines, actor.questions.stale) = (deadlines, false),
            Err(error) => actor.questions.try_again(&actor.identity.worker_id, &error),
        }
    }
    if actor.questions.rules_stale && actor.runtime.settled {
        match actor.shared.store.read(stored_rules(actor)).await {
            Ok(rules) => {
                // Even if the owner rules did not change, the policy may have been unreadable
                // before.
                actor.questions.take_rules(rules);
                judge_again(actor).await;
            }
            Err(error) => actor.questions.try_again(&actor.identity.worker_id, &error),
        }
    }
}

/// Returns the query for the stored rules.
pub(crate) fn stored_rules(actor: &Actor) -> impl FnOnce(&Connection) -> Result<Rules> + Send + use<> {
    let (id, known) = (actor.identity.id, actor.questions.policy.is_some());
    let turn = actor.worker.turn().map(|open| open.no);
    let (spec, cwd) = (actor.spec.policy.clone(), actor.identity.cwd.clone());
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

/// Applies the policy to pending requests.
async fn judge_again(actor: &mut Actor) {
    let waits = actor.worker.approvals.values().any(|asked| asked.approval == Approval::Pending);
    let Some(watch) = actor.questions.policy.clone().filter(|_| waits) else {
        actor.questions.rules_stale = false;
        return;
    };
    let id = actor.identity.id;
    let judged = actor.shared.store.read(move |connection| {
        let rows = questions::list(connection, id, None)?;
        let rows = rows
            .into_iter()
            .filter(|row| row.kind == QuestionKind::Permission && row.carrier == Carrier::Runtime);
        Ok(rows.filter_map(|row| watch.judge(&row.asked)).collect::<Vec<WorkerInput>>())
    });
    match judged.await {
        Ok(inputs) => {
            actor.questions.rules_stale = false;
            for input in inputs {
                actor.apply(input).await;
            }
        }
        Err(error) => actor.questions.try_again(&actor.identity.worker_id, &error),
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
