//! What all operations on stored worktrees need: a look at one, events about it, the begin of a
//! landing.

use subagent_core::model::Fact;
use subagent_protocol::api::WorktreeState;
use subagent_protocol::data::EventData;
use subagent_protocol::time::Timestamp;
use subagent_protocol::worktree::{Contents, Operation, WorktreeResult};
use subagent_protocol::{Code, Error, Result};

use super::operation;
use crate::store::worktrees::{self, WorktreeRow};
use crate::store::{Durability, OwnerCheck, Tx, facts, workers};
use crate::supervisor::entropy;
use crate::supervisor::shared::SupervisorState;
use crate::supervisor::start::environment::Variables;

/// Looks what is in a worktree.
pub(super) async fn look(shared: &SupervisorState, row: &WorktreeRow) -> Result<Contents> {
    let operation = Operation::Look { worktree: row.worktree.clone() };
    match operation::run(shared, &operation, &Variables::new()).await? {
        WorktreeResult::Found(contents) => Ok(contents),
        other => Err(operation::unexpected(&other)),
    }
}

/// Stores an event of the worker of a worktree, if there still is one. Returns its number.
pub(super) fn store_event(tx: &mut Tx<'_>, row: &WorktreeRow, data: EventData) -> Result<Option<i64>> {
    let Some(worker) = workers::get(tx.connection(), row.worker_id.as_str())? else { return Ok(None) };
    let fact = Fact::Event { data, turn: None };
    let added = facts::store(tx, worker.id, &[fact], None, entropy::now())?;
    Ok(added.last().map(|(_, seq)| *seq))
}

/// Stores that a landing has begun, for the next daemon. Returns the time of the landing. An earlier attempt whose
/// end is not known keeps its time, so that git recognizes it. Without an owner the daemon itself begins it.
///
/// # Errors
/// `WORKTREE_BUSY{reason}`, `INVALID_CONTROLLER_HANDLE`, `STORAGE_ERROR`.
pub(super) async fn begin_landing(
    shared: &SupervisorState,
    row: &WorktreeRow,
    owner: Option<OwnerCheck>,
) -> Result<Timestamp> {
    let row = row.clone();
    let write = shared.store.write(Durability::Full, 1, move |tx| {
        if let Some(owner) = &owner {
            worktrees::check_owner(tx.connection(), owner, &row)?;
        }
        let now = worktrees::by_name(tx.connection(), &row.worktree.name)?;
        if now.is_some_and(|now| now.state == WorktreeState::Landing) {
            return Err(Error::new(Code::WorktreeBusy, "another landing of this worktree is under way")
                .with("worktree", row.worktree.name.as_str())
                .with("reason", "landing")
                .retryable());
        }
        let time = row.landing_at.unwrap_or_else(entropy::now);
        let row = WorktreeRow { state: WorktreeState::Landing, landing_at: Some(time), ..row };
        worktrees::update(tx, &row, time)?;
        Ok(time)
    });
    let time = write.await?;
    subagent_failpoint::hit("land.after_begin");
    Ok(time)
}

/// The trailer of commits: whose work they are.
pub(super) fn trailer(row: &WorktreeRow, launcher: Option<String>) -> String {
    let worker = [row.worktree.name.clone()].into_iter().chain(launcher);
    let worker: Vec<String> = worker.chain([row.worker_id.to_string()]).collect();
    format!("Subagent: {}", worker.join(", "))
}
