//! Copies the database into a file while the daemon keeps running.

use std::path::Path;

use subagent_protocol::api::{BackUp, BackedUp};
use subagent_protocol::ids::EventId;
use subagent_protocol::{Code, Error, Result};

use crate::store::{Backup, Durability, StoreError, requests};
use crate::supervisor::shared::is_ending;
use crate::supervisor::{ApiCaller, Supervisor, entropy};

/// Copies the database into a file.
///
/// # Errors
/// `BACKUP_ALREADY_EXISTS`, `INVALID_ARGUMENT{path,error}` for a path that cannot be used,
/// `STORAGE_FULL`, `STORAGE_ERROR`, `IDEMPOTENCY_CONFLICT`.
pub(crate) async fn back_up(supervisor: &Supervisor, caller: ApiCaller, request: BackUp) -> Result<BackedUp> {
    check_place(supervisor, &request.path)?;
    let (_, key) = supervisor.guarded(caller, "backup", &request)?;
    let this = supervisor.clone();
    // In its own task, so that a client that disconnects does not leave half a file.
    tokio::spawn(async move { back_up_now(&this, request, key).await })
        .await
        .unwrap_or_else(|error| Err(Error::new(Code::Internal, error.to_string())))
}

async fn back_up_now(
    supervisor: &Supervisor,
    request: BackUp,
    key: Option<(String, String)>,
) -> Result<BackedUp> {
    // Backups run one at a time. A repeated request waits for the first one.
    let _turn = supervisor.shared.locks.backing_up.lock().await;
    let mut ending = supervisor.shared.ending.subscribe();
    if *ending.borrow() {
        return Err(StoreError::Closed.into());
    }
    // A restored database holds the key of the backup request, but not its result.
    if let Some(earlier) = supervisor.recall(&key).await?.and_then(|value| serde_json::from_value(value).ok())
    {
        return Ok(earlier);
    }
    let now = entropy::now();
    let backup = Backup { file: request.path.clone(), force: request.force, key: key.clone(), now };
    let copied = supervisor.shared.store.back_up(backup, async move { is_ending(&mut ending).await }).await?;
    let backed_up = BackedUp {
        path: request.path,
        size_bytes: copied.bytes,
        schema: copied.schema,
        last_event_id: (copied.last_seq > 0).then_some(EventId(copied.last_seq)),
    };
    let Some((key, fingerprint)) = key else { return Ok(backed_up) };
    let result = serde_json::to_string(&backed_up).map_err(|e| Error::new(Code::Internal, e.to_string()))?;
    let remembered = supervisor.shared.store.write(Durability::Full, 1, move |tx| {
        requests::recall(tx.connection(), &key, &fingerprint)?;
        requests::remember(tx, &key, &fingerprint, &result, now)
    });
    match remembered.await {
        Err(error) if error.code == Code::IdempotencyConflict => Err(error),
        // The file is complete and contains its key. A full disk of the state dir does not
        // change that.
        Err(error) => {
            tracing::warn!(%error, "the key of a backup was not stored");
            Ok(backed_up)
        }
        Ok(()) => Ok(backed_up),
    }
}

fn check_place(supervisor: &Supervisor, path: &Path) -> Result<()> {
    let refused = |what: &str| {
        let message = format!("the backup cannot be written to {}: {what}", path.display());
        Err(Error::new(Code::InvalidArgument, message)
            .with("path", path.display().to_string())
            .with("error", what)
            .recommend("name a file outside of the state dir"))
    };
    if !path.is_absolute() {
        return refused("the path is not absolute");
    }
    let folder = path.parent().map(std::fs::canonicalize);
    match folder {
        Some(Ok(folder)) if folder.starts_with(&supervisor.shared.setup.state_dir) => {
            refused("a backup in the state dir is lost with it")
        }
        _ => Ok(()),
    }
}
