//! Step and time limits of a task's prompt. Steps are counted when their records are read, and time
//! by the account of the worker. A restarted daemon restores both from the store, so nothing is
//! counted twice.

use std::sync::Arc;
use std::time::Duration;

use subagent_core::model::LifecycleState;
use subagent_core::task::limits::PromptTime;
use subagent_protocol::Result;
use subagent_protocol::budget::Scope;
use tokio::time::Instant;

use super::prompt::PromptUsage;
use crate::steady::steady;
use crate::store::{accounts, tasks};
use crate::supervisor::entropy;
use crate::supervisor::worker::actor::Actor;

/// Reads the terms of the worker's task and the usage of its open prompt.
pub(crate) async fn recall(actor: &mut Actor) {
    if !actor.tasks.is_task() {
        actor.tasks.limits.known = true;
        return;
    }
    let (id, turn) = (actor.identity.id, actor.worker.turn().map(|open| (open.no, open.cancel.is_some())));
    let read = actor.shared.store.read(move |connection| {
        let Some((name, terms)) = tasks::limits::terms(connection, id)? else { return Ok(None) };
        let task = (Arc::from(name), terms);
        let mut open = turn.map(|(turn, ends)| PromptUsage::new(turn, &task, ends));
        if let Some(PromptUsage { turn, meter, .. }) = &mut open {
            tasks::limits::calls(connection, id, *turn, |call| {
                meter.steps.see(call);
                !meter.steps.is_full()
            })?;
        }
        Ok(Some((task, open)))
    });
    match read.await {
        Ok(found) => {
            let limits = &mut actor.tasks.limits;
            (limits.known, limits.stale) = (true, found.is_some());
            let (task, open) = found.unzip();
            (limits.task, limits.open) = (task, open.flatten());
        }
        Err(error) => actor.tasks.limits.failed(&actor.identity.worker_id, &error),
    }
}

/// Ends the open prompt of a task if its time is over. Returns whether there is work to do now.
pub(crate) async fn check(actor: &mut Actor) -> bool {
    if !actor.serves() || actor.tasks.limits.has_failed {
        return false;
    }
    if !actor.tasks.limits.known {
        recall(actor).await;
    }
    if actor.tasks.limits.has_failed || !std::mem::take(&mut actor.tasks.limits.stale) {
        return false;
    }
    actor.tasks.limits.at = None;
    let LifecycleState::Turn(turn) = &actor.worker.state else { return false };
    let (no, canceled) = (turn.no, turn.cancel.is_some());
    if canceled || actor.tasks.limits.open.as_ref().is_none_or(|open| open.turn != no) {
        return false;
    }
    let ran = match ran(actor).await {
        Ok(ran) => ran,
        Err(error) => {
            actor.tasks.limits.stale = true;
            actor.tasks.limits.failed(&actor.identity.worker_id, &error);
            return false;
        }
    };
    let Some(open) = &mut actor.tasks.limits.open else { return false };
    let Some((ending, reason)) = open.over(ran) else {
        // One millisecond after the limit, never before it.
        let left = open.meter.left(ran).and_then(|millis| millis.checked_add(1));
        actor.tasks.limits.at = left.and_then(|left| Instant::now().checked_add(Duration::from_millis(left)));
        return false;
    };
    super::end_task(actor, ending, reason).await;
    true
}

async fn ran(actor: &Actor) -> Result<PromptTime> {
    let id = actor.identity.id;
    let read = actor.shared.store.read(move |connection| {
        let before = tasks::limits::ran_before(connection, id)?;
        Ok(PromptTime::of(&accounts::account(connection, Scope::Worker, id)?, before, steady(entropy::now())))
    });
    read.await
}
