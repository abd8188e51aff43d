//! Budgets in a worker's actor: the timer of the time limit, the cancel of a turn, and changes of
//! limits. The store accounts usage, and `core` decides what follows.

pub(crate) mod state;

use std::time::Duration;

use subagent_core::accounts::Accounts;
use subagent_core::model::WorkerInput;
use subagent_core::rules::reasons::stopped_for_good;
use subagent_core::rules::usage::runs;
use subagent_protocol::budget::WorkerBudget;
use subagent_protocol::{Code, Result};
use tokio::time::Instant;

use super::actor::Actor;
use super::message::LimitOrder;
use crate::steady::steady;
use crate::store::{Durability, Execution, Tx, accounts, controllers, requests, tasks};
use crate::supervisor::entropy;

/// Checks the budgets if necessary. Returns whether there is work to do now.
pub(crate) async fn check(actor: &mut Actor) -> bool {
    if !actor.budgets.stale || !actor.serves() {
        return false;
    }
    actor.budgets.stale = false;
    if actor.stops() {
        actor.budgets.at = None;
        actor.budgets.time_runs(false, &actor.shared.changes.budgets);
        return false;
    }
    match add_budget_events(actor).await {
        Ok(accounts) => follow(actor, &accounts).await,
        Err(error) => {
            actor.budgets.look_later(&actor.identity.worker_id, &error);
            false
        }
    }
}

/// Returns the accounts, after storing the pending budget events.
async fn add_budget_events(actor: &mut Actor) -> Result<Accounts> {
    let id = actor.identity.id;
    let known = actor.shared.store.read(move |connection| accounts::accounts(connection, id)).await?;
    let now = entropy::now();
    let mut updated = known.clone();
    let heard = known.worker.revision == known.controller.revision;
    if heard && updated.news(false, steady(now)).is_empty() {
        return Ok(known);
    }
    let write = actor.shared.store.write(Durability::Full, 1, move |tx| {
        let added = accounts::add_budget_events(tx, id, now)?;
        Ok((added, accounts::accounts(tx.connection(), id)?))
    });
    let (added, accounts) = write.await?;
    actor.has_stored(Vec::new(), added.last().map(|(_, seq)| *seq));
    Ok(accounts)
}

async fn follow(actor: &mut Actor, accounts: &Accounts) -> bool {
    let now = steady(entropy::now());
    actor.budgets.limited = !accounts.is_boundless();
    actor.worker.queue.gated = actor.budgets.limited || actor.tasks.is_task();
    let over = accounts.cancels_others(now);
    if over.iter().any(|one| !actor.budgets.over.contains(one)) {
        // The budget is exhausted for all workers that share it.
        actor.shared.changes.budgets.send_modify(|changes| *changes += 1);
    }
    actor.budgets.over = over;
    let runs = runs(&actor.worker);
    actor.budgets.time_runs(runs && accounts.shares_time(), &actor.shared.changes.budgets);
    let left = accounts.left(now).filter(|_| actor.budgets.limited && runs);
    // One millisecond after the limit, never before it.
    let left = left.and_then(|millis| millis.checked_add(1)).map(Duration::from_millis);
    // A time that overflows the clock means no timer.
    actor.budgets.at = left.and_then(|left| Instant::now().checked_add(left));
    let open = actor.worker.turn().is_some_and(|turn| turn.cancel.is_none());
    match accounts.cancels(now).filter(|_| open) {
        Some(error) => {
            actor.apply(WorkerInput::OverBudget { error }).await;
            true
        }
        None => open_queued(actor).await,
    }
}

/// Opens the turn of the first queued message, or pauses the queue.
async fn open_queued(actor: &mut Actor) -> bool {
    if !actor.worker.waits_to_open() {
        return false;
    }
    let opens = WorkerInput::OpenQueued { refused: None };
    let check = |tx: &Tx<'_>, worker, now| {
        tasks::places::may_take(tx, worker)?;
        accounts::may_open_turn(tx, worker, now)
    };
    match actor.apply_if(opens, check).await {
        Ok(()) => true,
        // The task tree has no free slot. The actor is notified when one becomes free.
        Err(error) if error.code == Code::WorkerBusy => false,
        Err(error) if matches!(error.code, Code::BudgetExceeded | Code::BudgetUnknown) => {
            actor.apply(WorkerInput::OpenQueued { refused: Some(error) }).await;
            true
        }
        Err(error) => {
            actor.budgets.look_later(&actor.identity.worker_id, &error);
            false
        }
    }
}

pub(crate) async fn set_limits(actor: &mut Actor, order: LimitOrder) {
    let LimitOrder { owner, key, change, label, reply } = order;
    let stopped = actor.stops();
    let refused = stopped.then(|| stopped_for_good(actor.worker.public_state()));
    let (id, controller, now) = (actor.identity.id, actor.identity.controller.clone(), entropy::now());
    let worker_id = actor.identity.worker_id.clone();
    subagent_failpoint::hit("budget.before_commit");
    let write = actor.shared.store.write(Durability::Full, 2, move |tx| {
        let mut added = Vec::new();
        let (response, once) = requests::once(tx, key.as_ref(), now, |tx| {
            controllers::check_owner(tx.connection(), &owner, &controller)?;
            if let Some(refused) = refused {
                return Err(refused);
            }
            let (accounts, events) = accounts::change_worker_limits(tx, id, &change, now)?;
            added = events;
            let shown = WorkerBudget { worker_id, label, budget: accounts.worker.view(steady(now)) };
            Ok(serde_json::json!(shown))
        })?;
        Ok((response, added, once))
    });
    let result = write.await.map(|(response, added, once)| {
        if once == Execution::Fresh {
            actor.has_stored(Vec::new(), added.last().map(|(_, seq)| *seq));
            actor.budgets.is_news();
            if actor.tasks.gives() {
                // Tasks of the worker share its budget.
                actor.shared.changes.budgets.send_modify(|changes| *changes += 1);
            }
        }
        response
    });
    subagent_failpoint::hit("budget.after_commit");
    // The client may be gone.
    let _ = reply.send(result);
}
