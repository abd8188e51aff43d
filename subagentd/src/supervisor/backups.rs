//! A copy of the database for whoever asks, while everything goes on.

use std::path::Path;

use subagent_protocol::api::{BackUp, BackedUp};
use subagent_protocol::ids::EventId;
use subagent_protocol::{Code, Error, Result};

use super::shared::is_ending;
use super::{Caller, Supervisor, entropy};
use crate::store::Backup;

impl Supervisor {
    /// Copies the database into a file.
    ///
    /// # Errors
    /// `BACKUP_ALREADY_EXISTS`, `INVALID_ARGUMENT{path,error}` for a place that cannot be used, `STORAGE_FULL`,
    /// `STORAGE_ERROR`.
    pub async fn back_up(&self, caller: Caller, request: BackUp) -> Result<BackedUp> {
        self.check_place(&request.path)?;
        let (_, key) = self.guarded(caller, "backup", &request)?;
        let now = entropy::now();
        let backup = Backup { file: request.path.clone(), force: request.force, key, now };
        // On its own: a client that goes away must not leave half a file.
        let this = self.clone();
        let copied = tokio::spawn(async move {
            // One after the other, so that two for one file do not write into each other's.
            let _turn = this.shared.backing_up.lock().await;
            let mut ending = this.shared.ending.subscribe();
            this.shared.store.back_up(backup, async move { is_ending(&mut ending).await }).await
        })
        .await
        .unwrap_or_else(|error| Err(Error::new(Code::Internal, error.to_string())))?;
        Ok(BackedUp {
            path: request.path,
            size_bytes: copied.bytes,
            schema: copied.schema,
            last_event_id: (copied.last_seq > 0).then_some(EventId(copied.last_seq)),
        })
    }

    fn check_place(&self, path: &Path) -> Result<()> {
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
            Some(Ok(folder)) if folder.starts_with(&self.shared.setup.state_dir) => {
                refused("what lies in the state dir is lost with it")
            }
            _ => Ok(()),
        }
    }
}
