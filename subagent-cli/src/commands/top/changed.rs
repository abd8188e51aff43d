//! The changed files of workers, and which of them several live workers have changed. Pure.

use std::collections::{HashMap, HashSet};

use subagent_model::{OverviewRow, Workers};
use subagent_protocol::ids::WorkerId;
use subagent_protocol::state::WorkerState;

/// Maximum number of paths that are compared for a worker.
const MAX_PATHS: usize = 2000;

/// The changes of a worker since its first turn.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ChangedFiles {
    /// Lines that were added and deleted.
    pub(super) lines: (u64, u64),
    paths: HashSet<String>,
}

/// The changes of the workers for which they were counted; `None` if they are not known.
pub(super) type ChangeCounts = HashMap<WorkerId, Option<ChangedFiles>>;

impl ChangedFiles {
    /// Keeps a bounded number of paths.
    pub(super) fn new(lines: (u64, u64), paths: impl IntoIterator<Item = String>) -> Self {
        Self { lines, paths: paths.into_iter().take(MAX_PATHS).collect() }
    }
}

/// Returns for each live worker how many of its changed files another live worker of the same
/// repository has changed in another folder.
pub(super) fn shared(workers: &Workers, counts: &ChangeCounts) -> HashMap<WorkerId, usize> {
    let live = workers.rows().iter().filter(|row| row.state != WorkerState::Stopped);
    let counted = live.filter_map(|row| Some((row, counts.get(row.worker_id())?.as_ref()?)));
    let counted: Vec<_> = counted.filter(|(_, changed)| !changed.paths.is_empty()).collect();
    let of = |row: &OverviewRow, own: &ChangedFiles| {
        let is_other =
            |other: &OverviewRow| repository(other) == repository(row) && folder(other) != folder(row);
        let others: Vec<_> = counted.iter().filter(|(other, _)| is_other(other)).collect();
        own.paths
            .iter()
            .filter(|path| others.iter().any(|(_, changed)| changed.paths.contains(*path)))
            .count()
    };
    let number = |(row, own): &(&OverviewRow, &ChangedFiles)| (row.worker_id().clone(), of(row, own));
    counted.iter().map(number).filter(|(_, shared)| *shared > 0).collect()
}

/// The main work tree of a worker's worktree, else its folder.
fn repository(row: &OverviewRow) -> &std::path::Path {
    let worktree = row.snapshot.worktree.as_ref();
    worktree.map_or_else(|| row.snapshot.cwd.as_ref(), |worktree| worktree.main.as_path())
}

/// The folder whose files the worker changes.
fn folder(row: &OverviewRow) -> &std::path::Path {
    let worktree = row.snapshot.worktree.as_ref();
    worktree.map_or_else(|| row.snapshot.cwd.as_ref(), |worktree| worktree.path.as_path())
}
