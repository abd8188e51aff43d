//! What all operations on stored worktrees need: a look at one, and events about it.

use subagent_core::model::Fact;
use subagent_protocol::event::EventType;
use subagent_protocol::worktree::{Contents, Operation, WorktreeResult};
use subagent_protocol::{Code, Error, Result};

use super::operation;
use crate::store::worktrees::WorktreeRow;
use crate::store::{Tx, facts, workers};
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
pub(super) fn store_event(
    tx: &mut Tx<'_>,
    row: &WorktreeRow,
    event_type: EventType,
    data: &impl serde::Serialize,
) -> Result<Option<i64>> {
    let Some(worker) = workers::get(tx.connection(), row.worker_id.as_str())? else { return Ok(None) };
    let data = serde_json::to_value(data).map_err(|error| Error::new(Code::Internal, error.to_string()))?;
    let fact = Fact::Event { event_type, data, turn: None };
    let added = facts::store(tx, worker.id, &[fact], None, entropy::now())?;
    Ok(added.last().map(|(_, seq)| *seq))
}
