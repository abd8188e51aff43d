//! Creates a handoff snapshot: facts from the store, then files, then the row that makes it
//! visible. Files are complete before the row is committed. A crash in between leaves an
//! unreferenced folder, which the next daemon removes.

mod facts;
mod files;

use std::path::{Path, PathBuf};

use subagent_protocol::api::{CreateHandoff, HandoffReady};
use subagent_protocol::ids::SnapshotId;
use subagent_protocol::{Code, Error, Result, json};

use super::orders::read_response;
use super::shared::SupervisorState;
use super::{ApiCaller, Supervisor, entropy};
use crate::handoff::{Paths, checkpoint, markdown};
use crate::store::handoffs::{self, HandoffRow};
use crate::store::{Durability, Execution, WorkerRow, controllers, requests, retention};

/// Name of the folder for snapshots, in the state dir or in the requested one.
pub(super) const FOLDER: &str = "handoffs";
/// Maximum length of a summary, in bytes.
const MAX_SUMMARY_BYTES: usize = 16 * 1024;

/// Writes a snapshot of a worker, in any state of the worker.
///
/// # Errors
/// `WORKER_NOT_FOUND`, `INVALID_CONTROLLER_HANDLE`, `IDEMPOTENCY_CONFLICT`;
/// `INVALID_ARGUMENT{path,error}` for a `handoffsDir` that cannot be used,
/// `STATE_DIR_UNWRITABLE{path,error}`, `STORAGE_FULL`, `STORAGE_ERROR`.
pub(crate) async fn hand_off(
    supervisor: &Supervisor,
    caller: ApiCaller,
    worker: &str,
    request: CreateHandoff,
) -> Result<HandoffReady> {
    let row = supervisor.row(worker).await?;
    // In its own task, so that a client that disconnects does not leave files without their
    // row.
    let this = supervisor.clone();
    tokio::spawn(async move { snapshot(&this, caller, row, request).await })
        .await
        .unwrap_or_else(|error| Err(Error::new(Code::Internal, error.to_string())))
}

async fn snapshot(
    supervisor: &Supervisor,
    caller: ApiCaller,
    row: WorkerRow,
    request: CreateHandoff,
) -> Result<HandoffReady> {
    let (owner, key) = supervisor.guarded(caller, &format!("handoff {}", row.worker_id), &request)?;
    if let Some(earlier) = supervisor.recall(&key).await? {
        return read_response(earlier);
    }
    supervisor.check_owner_of(&owner, &row).await?;
    if request.summary.as_ref().is_some_and(|summary| summary.len() > MAX_SUMMARY_BYTES) {
        let message = format!("a summary has at most {MAX_SUMMARY_BYTES} bytes");
        return Err(Error::new(Code::InvalidInput, message).with("field", "summary"));
    }
    let snapshot_id = SnapshotId::from_random(entropy::random()?);
    let place = place(supervisor, &row, request.handoffs_dir)?;
    let folder = place.base.join(row.worker_id.as_str()).join(snapshot_id.as_str());
    let name = |file: &str| folder.join(file).to_string_lossy().into_owned();
    let paths = Paths { handoff: name("handoff.md"), checkpoint: name("checkpoint.json") };
    let created_at = entropy::now();
    let (of, id, named) = (row.clone(), snapshot_id.clone(), paths.clone());
    let facts = supervisor
        .shared
        .store
        .read(move |connection| {
            let said = (request.workspace, request.summary);
            facts::gather(connection, &of, id, created_at, named, said)
        })
        .await?;
    let ready = HandoffReady {
        snapshot_id: snapshot_id.clone(),
        worker_id: row.worker_id.clone(),
        handoff_path: paths.handoff.clone(),
        checkpoint_path: paths.checkpoint.clone(),
        source_turn_id: facts.source_turn().map(|turn| turn.id.clone()),
    };
    let new = HandoffRow {
        snapshot_id,
        up_to: facts.up_to.0,
        handoff_path: paths.handoff,
        checkpoint_path: paths.checkpoint,
        created_at,
    };
    let at = folder.clone();
    let written = tokio::task::spawn_blocking(move || {
        let json = json::indented(checkpoint::render(&facts));
        files::write(&at, &[("handoff.md", markdown::render(&facts)), ("checkpoint.json", json)])
    });
    match written.await {
        Ok(result) => result.map_err(|(path, error)| place.error(&path, &error))?,
        Err(error) => return Err(Error::new(Code::Internal, error.to_string())),
    }
    subagent_failpoint::hit("handoff.before_commit");
    let ready = commit(supervisor, row, new, ready, owner, key, folder).await;
    subagent_failpoint::hit("handoff.after_commit");
    ready
}

async fn commit(
    supervisor: &Supervisor,
    row: WorkerRow,
    new: HandoffRow,
    ready: HandoffReady,
    owner: crate::store::OwnerCheck,
    key: Option<(String, String)>,
    folder: PathBuf,
) -> Result<HandoffReady> {
    let worker = row.worker_id.clone();
    let stored = supervisor
        .shared
        .store
        .write(Durability::Full, 1, move |tx| {
            requests::once(tx, key.as_ref(), new.created_at, |tx| {
                controllers::check_owner_of(tx.connection(), &owner, &row.controller_id)?;
                if retention::kept(tx.connection(), row.id)?.is_none() {
                    return Err(Error::new(Code::WorkerNotFound, "the worker was removed"));
                }
                handoffs::insert(tx, row.id, &new)?;
                Ok(ready)
            })
        })
        .await;
    if !matches!(stored, Ok((_, Execution::Fresh))) {
        // No row refers to these files.
        files::remove(&folder);
    }
    match stored {
        Ok((ready, _)) => Ok(ready),
        Err(error) if error.code == Code::WorkerNotFound => Err(supervisor.roster.not_found(worker.as_str())),
        Err(error) => Err(error),
    }
}

fn place(supervisor: &Supervisor, row: &WorkerRow, wanted: Option<PathBuf>) -> Result<SnapshotFolder> {
    match wanted {
        None => Ok(SnapshotFolder { base: supervisor.shared.setup.state_dir.join(FOLDER), asked_for: false }),
        Some(dir) if dir.is_absolute() => Ok(SnapshotFolder { base: dir.join(FOLDER), asked_for: true }),
        Some(dir) => {
            let message = format!("the folder for handoffs of {} must be an absolute path", row.worker_id);
            Err(Error::new(Code::InvalidArgument, message).with("path", dir.display().to_string()))
        }
    }
}

/// The folder for snapshots.
struct SnapshotFolder {
    base: PathBuf,
    /// Whether the caller chose the folder, and so has to correct an error.
    asked_for: bool,
}

impl SnapshotFolder {
    fn error(&self, path: &Path, error: &std::io::Error) -> Error {
        let (code, advice) = if self.asked_for {
            (Code::InvalidArgument, "name another folder with --handoffs-dir")
        } else {
            (Code::StateDirUnwritable, "allow it, or name another folder with --handoffs-dir")
        };
        Error::new(code, format!("the handoff cannot be written to {}: {error}", path.display()))
            .with("path", path.display().to_string())
            .with("error", error.to_string())
            .recommend(advice)
            .or_storage_full(error)
    }
}

/// Removes snapshots in the state dir that a killed daemon left incomplete or without a row.
/// Folders of workers that the store does not know are kept.
pub(super) async fn remove_strays(shared: &SupervisorState) {
    let base = shared.setup.state_dir.join(FOLDER);
    let known = match shared.store.read(handoffs::by_worker).await {
        Ok(known) => known,
        Err(error) => return tracing::warn!(%error, "handoffs without a row are not looked for"),
    };
    // The runtime reports a panic. The folders are harmless.
    let _ = tokio::task::spawn_blocking(move || files::remove_strays(&base, &known)).await;
}
