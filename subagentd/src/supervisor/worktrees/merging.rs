//! One merge, from its begin to its stored outcome: for a request, or at the end of a task.

use std::path::Path;

use subagent_config::policy::PROTECTED;
use subagent_protocol::api::{TaskMerge, WorktreeMerged, is_git_variable};
use subagent_protocol::data::EventData;
use subagent_protocol::ids::WorkerId;
use subagent_protocol::time::Timestamp;
use subagent_protocol::worktree::{
    AfterLanding, Landing, LandingMode, Merged, Operation, WorktreeResult, bounded, in_message,
};
use subagent_protocol::{Code, Error, Result};

use super::rows::{begin_landing, store_event, trailer};
use super::{ends, operation};
use crate::store::worktrees::{self, WorktreeRow};
use crate::store::{Durability, Tx, requests, tasks};
use crate::supervisor::entropy;
use crate::supervisor::shared::SupervisorState;
use crate::supervisor::start::environment::{self, Variables};

/// Merges the files of a task whose last turn is over. Returns the newest event about it once the outcome is stored
/// with the task; a merge that failed can be repeated by `task merge`.
///
/// # Errors
/// `STORAGE_ERROR`.
pub(in crate::supervisor) async fn write_back(
    shared: &SupervisorState,
    worker_id: &WorkerId,
    launcher: String,
    environment: &Path,
) -> Result<Option<i64>> {
    // After a restart of the machine the daemon's own variables stand in.
    let mut env = environment::read(environment).map(|kept| kept.variables).unwrap_or_default();
    env.retain(|(name, _)| is_git_variable(&name.0));
    subagent_failpoint::hit("write_back.before_run");
    match merge_of_task(shared, worker_id, launcher, &env).await {
        Ok(seq) => Ok(seq),
        Err(error) => {
            tracing::warn!(worker = %worker_id, %error, "the files of a task cannot be merged");
            let (worker_id, merge) = (worker_id.clone(), TaskMerge::failed(error, entropy::now()));
            let write = shared
                .store
                .write(Durability::Full, 1, move |tx| tasks::results::note_merge(tx, &worker_id, &merge));
            write.await.map(|()| None)
        }
    }
}

async fn merge_of_task(
    shared: &SupervisorState,
    worker_id: &WorkerId,
    launcher: String,
    env: &Variables,
) -> Result<Option<i64>> {
    let name = row_of_task(shared, worker_id).await?.worktree.name;
    // A request for the same worktree ends first: meanwhile this merge would fail as busy.
    let _one_at_a_time = shared.locks.worktrees.lock(&name).await;
    let row = row_of_task(shared, worker_id).await?;
    let time = begin_landing(shared, &row, None).await?;
    // No person has looked at the changes: files that say what agents may do wait for `task merge`.
    let withheld = PROTECTED.map(str::to_owned).to_vec();
    let merging = Merging { row, launcher: Some(launcher), then: AfterLanding::GoOn, time, withheld };
    Ok(merging.carry_out(shared, env, None).await?.seq)
}

async fn row_of_task(shared: &SupervisorState, worker_id: &WorkerId) -> Result<WorktreeRow> {
    let id = worker_id.as_str().to_owned();
    let row = shared.store.read(move |connection| worktrees::of_worker(connection, &id)).await?;
    row.ok_or_else(|| Error::new(Code::WorktreeNotFound, "the worktree of the task is gone"))
}

/// A merge that has begun.
pub(super) struct Merging {
    pub(super) row: WorktreeRow,
    /// The launcher of its worker.
    pub(super) launcher: Option<String>,
    pub(super) then: AfterLanding,
    pub(super) time: Timestamp,
    /// Folders whose files are left out.
    pub(super) withheld: Vec<String>,
}

/// A merge that was carried out and stored.
pub(super) struct StoredMerge {
    /// Its data, or the error for files that have changed on both sides.
    pub(super) merged: Result<WorktreeMerged>,
    /// The newest event about it.
    pub(super) seq: Option<i64>,
}

impl Merging {
    /// Merges the files, and stores the result, the event and what became of the worktree. A complete merge is stored
    /// under the key too.
    ///
    /// # Errors
    /// `GIT_FAILED` and others of the operation, after which it has not begun; `STORAGE_ERROR`.
    pub(super) async fn carry_out(
        self,
        shared: &SupervisorState,
        env: &Variables,
        key: Option<(String, String)>,
    ) -> Result<StoredMerge> {
        let Self { row, launcher, then, time, withheld } = self;
        let landing = Landing {
            id: time.0,
            into: None,
            how: LandingMode::Squash,
            message: None,
            trailer: trailer(&row, launcher),
            checks: Vec::new(),
            protected: Vec::new(),
            withheld,
            then,
        };
        let operation = Operation::Merge { worktree: row.worktree.clone(), landing: Box::new(landing) };
        let merged = match operation::run(shared, &operation, env).await {
            Ok(WorktreeResult::Merged(merged)) => Ok(merged),
            Ok(other) => Err(operation::unexpected(&other)),
            Err(error) => Err(error),
        };
        subagent_failpoint::hit("merge.before_commit");
        let stored = shared.store.write(Durability::Full, 3, move |tx| {
            let state = worktrees::after_landing(tx.connection(), &row)?;
            let row = WorktreeRow { state, landing_at: None, ..row };
            let merged = match merged {
                Ok(merged) => merged,
                Err(error) => {
                    worktrees::update(tx, &row, entropy::now())?;
                    return Ok(Err(error));
                }
            };
            if let Some(error) = refusal(&row, &merged) {
                let (_, seq) = store(tx, row, merged)?;
                return Ok(Ok(StoredMerge { merged: Err(error), seq }));
            }
            let mut seq = None;
            let (merged, _) = requests::once(tx, key.as_ref(), entropy::now(), |tx| {
                let (merged, stored) = store(tx, row, merged)?;
                seq = stored;
                Ok(merged)
            })?;
            Ok(Ok(StoredMerge { merged: Ok(merged), seq }))
        });
        stored.await?
    }
}

/// What was merged, with its event and the note of its task, and what counts as the worktree's changes from now on, or
/// that it is gone.
fn store(tx: &mut Tx<'_>, mut row: WorktreeRow, merged: Merged) -> Result<(WorktreeMerged, Option<i64>)> {
    let merge = TaskMerge::of(merged.files.clone(), merged.refused.clone(), entropy::now());
    let ((files, more_files), (refused, more_refused)) = (bounded(merged.files), bounded(merged.refused));
    let data = WorktreeMerged {
        name: row.worktree.name.clone(),
        worker_id: row.worker_id.clone(),
        files,
        more_files,
        refused,
        more_refused,
        retired: merged.retired.clone(),
        worktree_removed: merged.worktree_removed,
    };
    let seq = store_event(tx, &row, EventData::WorktreeMerged(data.clone()))?;
    tasks::results::note_merge(tx, &row.worker_id, &merge)?;
    if merged.worktree_removed {
        let (_, removed) = ends::delete(tx, &row, merged.retired)?;
        return Ok((data, removed.or(seq)));
    }
    if row.worktree.base != merged.base {
        row.worktree.base = merged.base;
        // The main work tree has them, and its owner has not committed them.
        row.worktree.with_changes = true;
    }
    worktrees::update(tx, &row, entropy::now())?;
    Ok((data, seq))
}

/// The error for files that have changed on both sides.
fn refusal(row: &WorktreeRow, merged: &Merged) -> Option<Error> {
    if merged.refused.is_empty() {
        return None;
    }
    let (name, main) = (&row.worktree.name, row.worktree.main.display());
    let names = in_message(&merged.refused);
    let is_copy = row.worktree.copied.is_some();
    let (or_not, compare) = match is_copy {
        true => {
            let compare = format!("compare the files in {} and {main}", row.worktree.path.display());
            (", or the copy leaves them out", compare)
        }
        false => ("", format!("compare them with `subagent worktree diff {name}`")),
    };
    let message = format!("{name} and {main} have both changed {names}{or_not}");
    let by_lines = match row.worktree.is_isolated() || is_copy {
        true => "",
        false => "; `subagent land` merges by lines with what is committed",
    };
    let action = format!("{compare} and change one side{by_lines}");
    let mut error = Error::new(Code::LandConflict, message);
    for (key, more_key, names) in
        [("files", "moreFiles", &merged.refused), ("merged", "moreMerged", &merged.files)]
    {
        let (names, more) = bounded(names.clone());
        error = error.with(key, names);
        if more > 0 {
            error = error.with(more_key, more);
        }
    }
    Some(error.recommend(action))
}
