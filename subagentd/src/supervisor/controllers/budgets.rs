//! Reads and changes the budgets of controllers and workers.

use serde_json::Value;
use subagent_core::model::LifecycleState;
use subagent_core::rules::reasons::stopped_for_good;
use subagent_protocol::api::{ChangeControllerBudget, ControllerChoice};
use subagent_protocol::budget::{BudgetsShown, LimitsChange, Scope, WorkerBudget};
use subagent_protocol::state::WorkerState;
use subagent_protocol::{Code, Error, Result};
use tokio::sync::oneshot;

use super::required;
use crate::steady::steady;
use crate::store::{Connection, ControllerRow, Durability, accounts, controllers, requests};
use crate::supervisor::orders::{RequestTarget, read_response};
use crate::supervisor::worker::{ActorMessage, LimitOrder};
use crate::supervisor::{ApiCaller, Supervisor, entropy};

/// Returns the budget of a controller and of its workers.
///
/// # Errors
/// `CONTROLLER_NOT_FOUND`, `STORAGE_ERROR`.
pub(crate) async fn budgets(supervisor: &Supervisor, choice: ControllerChoice) -> Result<BudgetsShown> {
    let shown = move |connection: &Connection| {
        let controller = required(connection, &choice, None)?;
        shown(connection, &controller)
    };
    supervisor.shared.store.read(shown).await
}

/// Returns the budget of a worker.
///
/// # Errors
/// `WORKER_NOT_FOUND`, `STORAGE_ERROR`.
pub(crate) async fn worker_budget(supervisor: &Supervisor, worker: &str) -> Result<WorkerBudget> {
    let row = supervisor.row(worker).await?;
    let id = row.id;
    let accounts = supervisor.shared.store.read(move |connection| accounts::accounts(connection, id)).await?;
    let budget = accounts.worker.view(steady(entropy::now()));
    Ok(WorkerBudget { worker_id: row.worker_id, label: row.agent.label, budget })
}

/// Changes the shared budget of a controller's workers.
///
/// # Errors
/// `CONTROLLER_NOT_FOUND`, `INVALID_CONTROLLER_HANDLE`, `INVALID_ARGUMENT{field}`,
/// `INVALID_INPUT` for no change, `IDEMPOTENCY_CONFLICT`.
pub(crate) async fn change_budget(
    supervisor: &Supervisor,
    caller: ApiCaller,
    request: ChangeControllerBudget,
) -> Result<BudgetsShown> {
    check(&request.limits)?;
    let (owner, key) = supervisor.guarded(caller, "budget", &request)?;
    let now = entropy::now();
    let ChangeControllerBudget { choice, limits } = request;
    subagent_failpoint::hit("budget.before_commit");
    let changed = supervisor.shared.store.write(Durability::Full, 1, move |tx| {
        let change = |tx: &mut crate::store::Tx<'_>| {
            let controller = required(tx.connection(), &choice, owner.0.as_ref())?;
            controllers::check_owner(tx.connection(), &owner, &controller)?;
            accounts::change_controller_limits(tx, controller.id, &limits, now)?;
            shown(tx.connection(), &controller)
        };
        Ok(requests::once(tx, key.as_ref(), now, change)?.0)
    });
    let changed = changed.await;
    subagent_failpoint::hit("budget.after_commit");
    supervisor.shared.changes.budgets.send_modify(|changes| *changes += 1);
    changed
}

/// Changes the budget of a worker.
///
/// # Errors
/// `WORKER_NOT_FOUND`, `WORKER_STOPPED`, `INVALID_CONTROLLER_HANDLE`,
/// `INVALID_ARGUMENT{field}`, `INVALID_INPUT` for no change, `IDEMPOTENCY_CONFLICT`.
pub(crate) async fn change_worker_budget(
    supervisor: &Supervisor,
    caller: ApiCaller,
    worker: &str,
    change: LimitsChange,
) -> Result<WorkerBudget> {
    check(&change)?;
    let row = supervisor.row(worker).await?;
    let (owner, key) = supervisor.guarded(caller, &format!("budget {worker}"), &change)?;
    let handle = match supervisor.reach(&row, &owner, &key).await? {
        RequestTarget::Live(handle) => handle,
        RequestTarget::Replayed(response) => return read_response(response),
    };
    let (reply, answer) = oneshot::channel::<Result<Value>>();
    let order =
        LimitOrder { owner: owner.clone(), key: key.clone(), change, label: row.agent.label.clone(), reply };
    let sent = handle.send(ActorMessage::Limits(Box::new(order)));
    let answer = match answer.await {
        Ok(answer) => answer,
        // The actor ended before it answered.
        Err(_) if handle.snapshot.borrow().worker.state == LifecycleState::Stopped => {
            match supervisor.recall(&key).await? {
                Some(response) => Ok(response),
                None => {
                    supervisor.check_owner_of(&owner, &row).await?;
                    Err(stopped_for_good(WorkerState::Stopped))
                }
            }
        }
        Err(_) => Err(sent.err().unwrap_or_else(|| supervisor.abandoned())),
    };
    answer.map_err(|error| error.with("workerId", worker)).and_then(read_response)
}

fn check(change: &LimitsChange) -> Result<()> {
    match change.is_empty() {
        true => Err(Error::new(
            Code::InvalidInput,
            "nothing to change: give turns, wallTimeMs, tokens, cost, onLimit or onUnknown",
        )),
        false => change.over(&subagent_protocol::budget::Limits::default()).check(),
    }
}

fn shown(connection: &Connection, controller: &ControllerRow) -> Result<BudgetsShown> {
    let now = entropy::now();
    Ok(BudgetsShown {
        controller_id: controller.controller_id.clone(),
        controller: accounts::account(connection, Scope::Controller, controller.id)?.view(steady(now)),
        workers: accounts::of_workers(connection, controller.id, now)?,
    })
}
