//! Git worktrees of workers: planned with the worker's start, made before its first runtime, removed after its end if
//! nothing in them would be lost, and landed.
//!
//! Must not run git: [`operation`] has `subagent-runtime` do it. The row of a worktree is stored before anything is on
//! disk and deleted after all of it is gone, so that the next daemon can finish each step.

mod ends;
mod land;
mod making;
pub(super) mod operation;
mod planned;
mod removing;

use subagent_protocol::api::{WorktreeView, WorktreesListed};
use subagent_protocol::event::EventType;
use subagent_protocol::worktree::{Answer, Contents, Operation};
use subagent_protocol::{Code, Error, Result};

use super::environment::Variables;
use super::shared::Shared;
use super::{Supervisor, entropy};
use crate::core::Fact;
use crate::store::worktrees::{self, WorktreeRow};
use crate::store::{OwnerCheck, Tx, controllers, removal, workers};

pub(super) use ends::{finish, recover_landings};
pub(super) use making::{Making, take_over};
pub(super) use planned::Planned;

impl Supervisor {
    /// All worktrees, the newest first, with their contents if `look` is set.
    ///
    /// # Errors
    /// `STORAGE_ERROR`.
    pub async fn list_worktrees(&self, look: bool) -> Result<WorktreesListed> {
        let rows = self.shared.store.read(worktrees::list).await?;
        let views = rows.into_iter().map(|row| async move {
            let contents = if look { self.contents(&row).await.ok() } else { None };
            WorktreeView { contents, ..row.view() }
        });
        let items = futures_util::future::join_all(views).await;
        Ok(WorktreesListed { count: items.len(), items })
    }

    /// One worktree with its contents.
    ///
    /// # Errors
    /// `WORKTREE_NOT_FOUND`, those of git, `STORAGE_ERROR`.
    pub async fn show_worktree(&self, address: &str) -> Result<WorktreeView> {
        let row = self.worktree(address).await?;
        let contents = self.contents(&row).await?;
        Ok(WorktreeView { contents: Some(contents), ..row.view() })
    }

    /// The worktree with this name, or that of the worker with this address.
    ///
    /// # Errors
    /// `WORKTREE_NOT_FOUND{worktree,worktrees}`, `AMBIGUOUS_WORKER`, `STORAGE_ERROR`.
    pub(super) async fn worktree(&self, address: &str) -> Result<WorktreeRow> {
        let name = address.to_owned();
        if let Some(row) =
            self.shared.store.read(move |connection| worktrees::by_name(connection, &name)).await?
        {
            return Ok(row);
        }
        let worker_id = self.find_worker(address).await?;
        let found = self.shared.store.read(move |connection| {
            Ok((worktrees::of_worker(connection, &worker_id)?, worktrees::names(connection)?))
        });
        let (found, names) = found.await?;
        found.ok_or_else(|| {
            let mut names: Vec<String> = names.into_iter().collect();
            names.sort();
            let address = subagent_protocol::clean::one_line(address);
            Error::new(
                Code::WorktreeNotFound,
                format!("no worktree and no worker with one is called {address}"),
            )
            .with("worktree", address)
            .with("worktrees", names)
            .recommend("`subagent worktree list` shows all worktrees")
        })
    }

    async fn contents(&self, row: &WorktreeRow) -> Result<Contents> {
        look(&self.shared, row).await
    }

    /// The worktree of a worker as `worker show` has it.
    ///
    /// # Errors
    /// `STORAGE_ERROR`.
    pub(super) async fn worktree_of(&self, worker_id: &str) -> Result<Option<WorktreeView>> {
        let worker_id = worker_id.to_owned();
        let found = self.shared.store.read(move |connection| worktrees::of_worker(connection, &worker_id));
        Ok(found.await?.map(WorktreeRow::view))
    }
}

/// Looks what is in a worktree.
async fn look(shared: &Shared, row: &WorktreeRow) -> Result<Contents> {
    let operation = Operation::Look { worktree: row.worktree.clone() };
    match operation::run(shared, &operation, &Variables::new()).await? {
        Answer::Found(contents) => Ok(contents),
        other => Err(operation::unexpected(&other)),
    }
}

/// Whether the caller may change this worktree.
fn check_owner(tx: &Tx<'_>, owner: &OwnerCheck, row: &WorktreeRow) -> Result<()> {
    if workers::get(tx.connection(), row.worker_id.as_str())?.is_some() {
        return controllers::check_owner_of(tx.connection(), owner, &row.controller_id);
    }
    removal::check_owner_of_all(tx.connection(), owner, &[row.controller_id.clone()].into())
}

/// Stores an event of the worker of a worktree, if there still is one. Returns its number.
fn store_event(
    tx: &mut Tx<'_>,
    row: &WorktreeRow,
    event_type: EventType,
    data: &impl serde::Serialize,
) -> Result<Option<i64>> {
    let Some(worker) = workers::get(tx.connection(), row.worker_id.as_str())? else { return Ok(None) };
    let data = serde_json::to_value(data).map_err(|error| Error::new(Code::Internal, error.to_string()))?;
    let fact = Fact::Event { event_type, data, turn: None };
    let added = tx.store_facts(worker.id, &[fact], None, entropy::now())?;
    Ok(added.last().map(|(_, seq)| *seq))
}
