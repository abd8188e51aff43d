//! Budget accounts of workers and controllers: one row each, updated in the transaction that
//! spends.
//! The rules for budgets are in `subagent_core::accounts`, not here.

use rusqlite::{Connection, params};
use subagent_core::accounts::{self, Above, Account, Accounts};
use subagent_core::model::Spent;
use subagent_protocol::Result;
use subagent_protocol::budget::{Limits, LimitsChange, Scope, WorkerBudget};
use subagent_protocol::data::EventData;
use subagent_protocol::data::budgets::BudgetChanged;
use subagent_protocol::event::EventType;
use subagent_protocol::time::Timestamp;

use super::error::StoreError;
use super::rows::{self, NewEvent, RowId};
use super::tasks;
use super::turns::usage;
use super::tx::Tx;
use crate::steady::steady;

/// Creates the account of a new worker. `parent` is the worker whose task it runs, if any.
pub(crate) fn open(
    tx: &Tx<'_>,
    worker: RowId,
    controller: RowId,
    parent: Option<RowId>,
    limits: Limits,
) -> Result<()> {
    let revision = account(tx.connection, Scope::Controller, controller)?.revision;
    let mut opened = Account::new(limits, revision);
    if let Some(parent) = parent {
        opened.above = vec![parent.0];
        opened.above.extend(account(tx.connection, Scope::Worker, parent)?.above);
    }
    keep_account(tx, Scope::Worker, worker, &opened)
}

/// Creates the account of a new controller, with nothing spent.
pub(crate) fn open_for_controller(tx: &Tx<'_>, controller: RowId, limits: Limits) -> Result<()> {
    keep_account(tx, Scope::Controller, controller, &Account::new(limits, 0))
}

fn keep_account(tx: &Tx<'_>, scope: Scope, key: RowId, account: &Account) -> Result<()> {
    let text = serde_json::to_string(account).map_err(|error| StoreError::BadRow(error.to_string()))?;
    tx.execute(
        "INSERT INTO accounts (scope, key, account) VALUES (?1, ?2, ?3)
         ON CONFLICT (scope, key) DO UPDATE SET account = excluded.account",
        params![scope.as_str(), key.0, text],
    )?;
    Ok(())
}

/// Charges `spent` to the worker and the accounts above it, and adds the resulting events to
/// `added`.
pub(super) fn spend(
    tx: &mut Tx<'_>,
    worker: RowId,
    spent: &Spent,
    now: Timestamp,
    added: &mut Vec<(EventType, i64)>,
) -> Result<()> {
    let (controller, mut accounts) = with_key(tx.connection, worker)?;
    let before = accounts.clone();
    if *spent == Spent::Opened {
        tasks::limits::begin_prompt(tx, worker, &accounts.worker, steady(now))?;
    }
    let spent = match spent {
        // The time of a record comes from the runtime, whose clock was compared with the one here.
        Spent::Clock { runs, at: Some(at) } => Spent::Clock { runs: *runs, at: Some(steady(Timestamp(*at))) },
        other => other.clone(),
    };
    let news = accounts.spend(&spent, steady(now));
    keep(tx, worker, controller, &before, &accounts)?;
    match spent {
        Spent::Opened => usage::charge_first_turn(tx, worker, &before.worker)?,
        Spent::Cost(_) => usage::charge_turns(tx, worker, accounts.worker.priced_since(&before.worker))?,
        Spent::Closed { .. } | Spent::NewSession | Spent::Clock { .. } => {}
    }
    add_events(tx, worker, news, now, added)
}

fn keep(tx: &Tx<'_>, worker: RowId, controller: RowId, before: &Accounts, now: &Accounts) -> Result<()> {
    if now.worker != before.worker {
        keep_account(tx, Scope::Worker, worker, &now.worker)?;
    }
    for (above, before) in now.above.iter().zip(&before.above) {
        if above.account != before.account {
            keep_account(tx, Scope::Worker, RowId(above.key), &above.account)?;
        }
    }
    if now.controller != before.controller {
        keep_account(tx, Scope::Controller, controller, &now.controller)?;
    }
    Ok(())
}

fn add_events(
    tx: &mut Tx<'_>,
    worker: RowId,
    news: Vec<EventData>,
    now: Timestamp,
    added: &mut Vec<(EventType, i64)>,
) -> Result<()> {
    for data in news {
        let (event_type, payload) = (data.event_type(), data.to_value().to_string());
        let event = NewEvent {
            number: None,
            turn: None,
            at: now,
            event_type,
            kind: None,
            record: None,
            payload: &payload,
        };
        added.push((event_type, tx.insert_event(worker, &event)?));
    }
    Ok(())
}

/// Checks that the budgets allow another turn of this worker.
///
/// # Errors
/// `BUDGET_EXCEEDED`, `BUDGET_UNKNOWN`.
pub(crate) fn may_open_turn(tx: &Tx<'_>, worker: RowId, now: Timestamp) -> Result<()> {
    accounts::may_open(&self::accounts(tx.connection, worker)?, steady(now))
}

/// Checks that the budgets allow this worker to submit a task. Unlike for a turn, the last
/// allowed turn may be the one in progress.
///
/// # Errors
/// `BUDGET_EXCEEDED`, `BUDGET_UNKNOWN`.
pub(crate) fn may_give_work(tx: &Tx<'_>, worker: RowId, now: Timestamp) -> Result<()> {
    accounts::may_give_work(&self::accounts(tx.connection, worker)?, steady(now))
}

/// Adds the events for changes that no request of this worker caused: a used-up time budget, or
/// new limits of its controller.
pub(crate) fn add_budget_events(
    tx: &mut Tx<'_>,
    worker: RowId,
    now: Timestamp,
) -> Result<Vec<(EventType, i64)>> {
    let (controller, mut accounts) = with_key(tx.connection, worker)?;
    let before = accounts.clone();
    let mut news = Vec::new();
    if accounts.worker.revision != accounts.controller.revision {
        accounts.worker.revision = accounts.controller.revision;
        news.push(changed(Scope::Controller, &accounts.controller.limits));
    }
    news.extend(accounts.news(false, steady(now)));
    keep(tx, worker, controller, &before, &accounts)?;
    let mut added = Vec::new();
    add_events(tx, worker, news, now, &mut added)?;
    Ok(added)
}

/// Changes the budget limits of one worker, and returns its accounts and the added events.
///
/// # Errors
/// `INVALID_ARGUMENT{field}`.
pub(crate) fn change_worker_limits(
    tx: &mut Tx<'_>,
    worker: RowId,
    change: &LimitsChange,
    now: Timestamp,
) -> Result<(Accounts, Vec<(EventType, i64)>)> {
    let (controller, mut accounts) = with_key(tx.connection, worker)?;
    let before = accounts.clone();
    accounts.worker.change(change, steady(now))?;
    let mut news = vec![changed(Scope::Worker, &accounts.worker.limits)];
    news.extend(accounts.news(false, steady(now)));
    keep(tx, worker, controller, &before, &accounts)?;
    let mut added = Vec::new();
    add_events(tx, worker, news, now, &mut added)?;
    Ok((accounts, added))
}

/// Changes the shared limits of a controller's workers. Each worker's actor adds its own event
/// for this later.
///
/// # Errors
/// `INVALID_ARGUMENT{field}`.
pub(crate) fn change_controller_limits(
    tx: &Tx<'_>,
    controller: RowId,
    change: &LimitsChange,
    now: Timestamp,
) -> Result<()> {
    let mut account = account(tx.connection, Scope::Controller, controller)?;
    account.change(change, steady(now))?;
    account.revision += 1;
    keep_account(tx, Scope::Controller, controller, &account)
}

fn changed(scope: Scope, limits: &Limits) -> EventData {
    EventData::BudgetChanged(BudgetChanged { scope, limits: limits.clone() })
}

fn read(text: Option<String>) -> Result<Account> {
    match text {
        None => Ok(Account::default()),
        Some(text) => serde_json::from_str(&text)
            .map_err(|error| StoreError::BadRow(format!("an account: {error}")).into()),
    }
}

/// Reads an account. An account without a row is empty.
pub(crate) fn account(connection: &Connection, scope: Scope, key: RowId) -> Result<Account> {
    let sql = "SELECT account FROM accounts WHERE scope = ?1 AND key = ?2";
    read(rows::optional(connection, sql, params![scope.as_str(), key.0], |row| row.get(0))?)
}

/// Reads all accounts that limit a worker: its own, its controller's and those of the workers above
/// it.
pub(crate) fn accounts(connection: &Connection, worker: RowId) -> Result<Accounts> {
    Ok(with_key(connection, worker)?.1)
}

fn with_key(connection: &Connection, worker: RowId) -> Result<(RowId, Accounts)> {
    let sql = "SELECT w.controller, a.account, c.account FROM workers w
               LEFT JOIN accounts a ON a.scope = 'worker' AND a.key = w.id
               LEFT JOIN accounts c ON c.scope = 'controller' AND c.key = w.controller WHERE w.id = ?1";
    let (controller, own, shared) =
        rows::one(connection, sql, [worker.0], |row| Ok((RowId(row.get(0)?), row.get(1)?, row.get(2)?)))?;
    let worker = read(own)?;
    let above = worker.above.iter().filter_map(|key| above(connection, *key).transpose());
    Ok((controller, Accounts { above: above.collect::<Result<_>>()?, worker, controller: read(shared)? }))
}

/// Reads the account of an ancestor; `None` if the ancestor was removed.
fn above(connection: &Connection, key: i64) -> Result<Option<Above>> {
    let sql =
        "SELECT w.worker_id, a.account FROM workers w JOIN accounts a ON a.scope = 'worker' AND a.key = w.id
               WHERE w.id = ?1 AND w.removed_at IS NULL";
    let Some((worker_id, text)) =
        rows::optional(connection, sql, [key], |row| Ok((rows::parsed(row, 0)?, row.get(1)?)))?
    else {
        return Ok(None);
    };
    Ok(Some(Above { key, worker_id, account: read(text)? }))
}

/// Lists the budgets of a controller's workers, newest worker first.
pub(crate) fn of_workers(
    connection: &Connection,
    controller: RowId,
    now: Timestamp,
) -> Result<Vec<WorkerBudget>> {
    let sql = "SELECT w.worker_id, w.label, a.account FROM workers w
               LEFT JOIN accounts a ON a.scope = 'worker' AND a.key = w.id
               WHERE w.controller = ?1 AND w.removed_at IS NULL ORDER BY w.created_at DESC, w.worker_id DESC";
    let found: Vec<_> = rows::all(connection, sql, [controller.0], |row| {
        Ok((rows::parsed(row, 0)?, row.get(1)?, row.get::<_, Option<String>>(2)?))
    })?;
    let shown = |(worker_id, label, text)| {
        Ok(WorkerBudget { worker_id, label, budget: read(text)?.view(steady(now)) })
    };
    found.into_iter().map(shown).collect()
}

#[cfg(test)]
mod tests;
