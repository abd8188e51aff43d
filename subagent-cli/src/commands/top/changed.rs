//! The changed files of workers, and which of them several live workers have changed. Pure.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use subagent_model::{OverviewRow, Workers};
use subagent_protocol::ids::WorkerId;
use subagent_protocol::state::WorkerState;

/// Maximum number of paths that are compared for a worker: each picture compares those of all.
const MAX_PATHS: usize = 500;

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
    // The only folder in which a file was changed; `None` if there are several.
    let mut folders: HashMap<(&Path, &str), Option<&Path>> = HashMap::new();
    for (row, changed) in &counted {
        for path in &changed.paths {
            let only = folders.entry((repository(row), path)).or_insert(Some(folder(row)));
            *only = only.filter(|known| *known == folder(row));
        }
    }
    let number = |(row, changed): &(&OverviewRow, &ChangedFiles)| {
        let is_shared = |path: &&String| folders.get(&(repository(row), path.as_str())) == Some(&None);
        (row.worker_id().clone(), changed.paths.iter().filter(is_shared).count())
    };
    counted.iter().map(number).filter(|(_, shared)| *shared > 0).collect()
}

/// The main work tree of a worker's worktree, else its folder.
fn repository(row: &OverviewRow) -> &Path {
    let worktree = row.snapshot.worktree.as_ref();
    worktree.map_or_else(|| row.snapshot.cwd.as_ref(), |worktree| worktree.main.as_path())
}

/// The folder whose files the worker changes.
fn folder(row: &OverviewRow) -> &Path {
    let worktree = row.snapshot.worktree.as_ref();
    worktree.map_or_else(|| row.snapshot.cwd.as_ref(), |worktree| worktree.path.as_path())
}
