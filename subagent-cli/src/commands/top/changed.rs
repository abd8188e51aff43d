//! The changed files of workers, and which of them several live workers have changed. Pure.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use subagent_model::OverviewRow;
use subagent_protocol::state::WorkerState;

use super::hosts::{BoardHosts, BoardWorker, HostIndex};

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
pub(super) type ChangeCounts = HashMap<BoardWorker, Option<ChangedFiles>>;

impl ChangedFiles {
    /// Keeps a bounded number of paths.
    pub(super) fn new(lines: (u64, u64), paths: impl IntoIterator<Item = String>) -> Self {
        Self { lines, paths: paths.into_iter().take(MAX_PATHS).collect() }
    }
}

/// Returns for each live worker how many of its changed files another live worker of the same
/// repository has changed in another folder.
pub(super) fn shared(hosts: &BoardHosts, counts: &ChangeCounts) -> HashMap<BoardWorker, usize> {
    let live = hosts.rows().filter(|(_, row)| row.state != WorkerState::Stopped);
    let counted = live.filter_map(|(at, row)| {
        let worker = BoardWorker { host: at.host, id: row.worker_id().clone() };
        let changed = counts.get(&worker)?.as_ref()?;
        Some((worker, row, changed))
    });
    let counted: Vec<_> = counted.filter(|(_, _, changed)| !changed.paths.is_empty()).collect();
    // The only folder in which a file was changed; `None` if there are several.
    let mut folders: HashMap<(HostIndex, &Path, &str), Option<&Path>> = HashMap::new();
    for (worker, row, changed) in &counted {
        for path in &changed.paths {
            let only = folders.entry((worker.host, repository(row), path)).or_insert(Some(folder(row)));
            *only = only.filter(|known| *known == folder(row));
        }
    }
    let number = |(worker, row, changed): &(BoardWorker, &OverviewRow, &ChangedFiles)| {
        let key = |path: &String| folders.get(&(worker.host, repository(row), path.as_str())) == Some(&None);
        (worker.clone(), changed.paths.iter().filter(|path| key(path)).count())
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
