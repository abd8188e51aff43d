//! Deletes files of removed workers, files in the state dir of unknown workers, and what a restore
//! replaced. Must not touch files of a worker with a live runtime or guard, known or not. Must not
//! touch the journal of an unknown worker: it may be the only copy.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use subagent_config::state_dir::{REPLACED_DATABASE, REPLACED_RUNTIMES};
use subagent_protocol::ids::WorkerId;
use subagent_protocol::time::Timestamp;
use subagent_protocol::work_tree;
use subagent_protocol::{Code, Error, Result};

use crate::store::removal;
use crate::supervisor::handoffs;
use crate::supervisor::runtimes::carrier::placed_root;
use crate::supervisor::runtimes::locks;
use crate::supervisor::shared::SupervisorState;
use crate::supervisor::views::base_folder::base_folder;

/// A file or folder of an unknown worker, or one that a restore replaced.
#[derive(Debug)]
pub(crate) struct OrphanedPath {
    pub(crate) path: PathBuf,
    pub(crate) bytes: u64,
}

/// Endings of the names of an agent's logs.
const LOGS: [&str; 2] = [".log", ".log.1"];

/// Returns the paths of a worker's files, except snapshots in other folders.
fn places(state_dir: &Path, worker: &str) -> Vec<PathBuf> {
    let mut places = vec![state_dir.join(handoffs::FOLDER).join(worker), base_folder(state_dir, worker)];
    for folder in runtime_folders(state_dir) {
        places.push(folder.join(worker));
        places.extend(LOGS.map(|end| folder.join(format!("{worker}{end}"))));
    }
    places
}

/// Returns the folders with a folder for each worker that has or had a runtime.
fn runtime_folders(state_dir: &Path) -> [PathBuf; 2] {
    [state_dir.join("runtimes"), placed_root(state_dir)]
}

/// Returns whether a runtime or guard of the worker lives on this machine.
fn are_held(state_dir: &Path, worker: &str) -> bool {
    runtime_folders(state_dir).iter().any(|folder| locks::are_held(&folder.join(worker)))
}

/// Removes all files of a worker. Returns whether nothing is left; the log has the reason.
pub(crate) async fn remove_all_of(shared: &SupervisorState, worker: &str) -> bool {
    let mut paths = places(&shared.setup.state_dir, worker);
    paths.push(shared.setup.runtime_dir.worker_environment(worker));
    paths.push(shared.setup.runtime_dir.container_token(worker));
    paths.extend(shared.setup.runtime_dir.worker_socket(worker));
    let (state_dir, worker) = (shared.setup.state_dir.clone(), worker.to_owned());
    let removed = tokio::task::spawn_blocking(move || {
        // Tries all paths, even if one cannot be removed.
        !are_held(&state_dir, &worker) && paths.iter().filter(|path| !remove_one(path)).count() == 0
    });
    removed.await.unwrap_or(false)
}

/// Finds files of unknown workers that were last changed before the cutoff, and what was replaced
/// before it.
pub(crate) async fn find(shared: &SupervisorState, cutoff: Timestamp) -> Result<Vec<OrphanedPath>> {
    let state_dir = shared.setup.state_dir.clone();
    // Files are listed before rows are read: a worker has its row before it has files.
    let (found, replaced) =
        blocking(move || (candidates(&state_dir), replaced_before(&state_dir, cutoff))).await?;
    let found = shared
        .store
        .read(move |connection| {
            let mut unknown = Vec::new();
            for (worker, path) in found {
                if !removal::is_known(connection, &worker)? {
                    unknown.push((worker, path));
                }
            }
            Ok(unknown)
        })
        .await?;
    let state_dir = shared.setup.state_dir.clone();
    blocking(move || {
        let old = found.into_iter().filter(|(worker, path)| {
            let has_journal = || runtime_folders(&state_dir).iter().any(|at| has_journal(&at.join(worker)));
            changed(path).is_some_and(|at| at < cutoff) && !has_journal() && !are_held(&state_dir, worker)
        });
        let old = old.map(|(_, path)| path).chain(replaced);
        old.map(|path| OrphanedPath { bytes: bytes(&path), path }).collect()
    })
    .await
}

/// Removes the files that [`find`] returned.
pub(crate) async fn remove(found: Vec<OrphanedPath>) {
    // The log names what cannot be removed. The next run finds it again.
    let _ = blocking(move || found.iter().filter(|left| !remove_one(&left.path)).count()).await;
}

/// Returns the approximate size of a worker's files, in bytes.
pub(crate) async fn bytes_of(shared: &SupervisorState, worker: &str) -> u64 {
    let paths = places(&shared.setup.state_dir, worker);
    blocking(move || paths.iter().map(|path| bytes(path)).sum()).await.unwrap_or(0)
}

async fn blocking<T: Send + 'static>(job: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    let done = tokio::task::spawn_blocking(job).await;
    done.map_err(|error| Error::new(Code::Internal, error.to_string()))
}

/// Returns the paths in the state dir that are named after a worker, with its id.
fn candidates(state_dir: &Path) -> Vec<(String, PathBuf)> {
    let mut found = Vec::new();
    let others = [handoffs::FOLDER, work_tree::FOLDER].map(|name| state_dir.join(name));
    for folder in runtime_folders(state_dir).into_iter().chain(others) {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let Some(name) = name.to_str() else { continue };
            let worker = LOGS.iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
            if worker.parse::<WorkerId>().is_ok() {
                found.push((worker.to_owned(), entry.path()));
            }
        }
    }
    found.sort();
    found
}

/// Returns what restores before the cutoff replaced.
fn replaced_before(state_dir: &Path, cutoff: Timestamp) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = fs::read_dir(state_dir)
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| entry.file_name().to_str().and_then(replaced_at).is_some_and(|at| at < cutoff))
        .map(|entry| entry.path())
        .collect();
    found.sort();
    found
}

/// Parses the time of the restore from the name. The modification time is older, because the file
/// was moved.
fn replaced_at(name: &str) -> Option<Timestamp> {
    let time = name.strip_prefix(REPLACED_DATABASE).or_else(|| name.strip_prefix(REPLACED_RUNTIMES))?;
    let (day, rest) = time.split_once('T')?;
    Timestamp::parse(&format!("{day}T{}", rest.get(..8)?.replace('-', ":")))
}

/// Returns whether the folder contains a journal, or cannot be read.
fn has_journal(directory: &Path) -> bool {
    match fs::read_dir(directory) {
        Ok(entries) => entries.flatten().any(|entry| {
            let name = entry.file_name();
            Path::new(&name).extension().is_some_and(|end| end == "journal")
        }),
        Err(error) => !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory),
    }
}

fn changed(path: &Path) -> Option<Timestamp> {
    let modified = fs::symlink_metadata(path).and_then(|meta| meta.modified()).ok()?;
    let since = modified.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    Some(Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX)))
}

fn bytes(path: &Path) -> u64 {
    let Ok(meta) = fs::symlink_metadata(path) else { return 0 };
    if !meta.is_dir() {
        return meta.len();
    }
    fs::read_dir(path).into_iter().flatten().flatten().map(|entry| bytes(&entry.path())).sum()
}

/// Removes a file, or a folder with its content. Does not follow links.
fn remove_one(path: &Path) -> bool {
    let removed = match fs::symlink_metadata(path) {
        Ok(meta) if meta.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            tracing::warn!(path = %path.display(), %error, "the files of a removed worker cannot be removed");
            false
        }
        _ => true,
    }
}
