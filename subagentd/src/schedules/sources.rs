//! The tokens of webhooks, and the wait for a watched folder.

use sha2::{Digest as _, Sha256};
use subagent_protocol::ids::hex;
use subagent_protocol::trigger::TriggerSource;
use subagent_protocol::{Code, Error, Result};
use subtle::ConstantTimeEq as _;
use tokio::time::timeout;

use super::{CARRIED_OUT_WITHIN, Scheduler};
use crate::store::schedules::{FiringSource, ScheduleKind};

impl Scheduler {
    /// Checks the token of a webhook. The error does not tell whether the trigger exists.
    ///
    /// # Errors
    /// `UNAUTHORIZED`, `STORAGE_ERROR`.
    pub(super) async fn check_token(&self, name: &str, token: &str) -> Result<()> {
        let row = match self.row(ScheduleKind::Trigger, name).await {
            Err(error) if error.code == Code::TriggerNotFound => None,
            found => Some(found?),
        };
        let stored = row.and_then(|row| match row.times.starter {
            FiringSource::Trigger { source: TriggerSource::Webhook { token_sha256 } } => token_sha256,
            _ => None,
        });
        let given = hex(&Sha256::digest(token.as_bytes()));
        let is_right = stored.is_some_and(|stored| stored.as_bytes().ct_eq(given.as_bytes()).into());
        if is_right { Ok(()) } else { Err(Error::new(Code::Unauthorized, "no trigger has this token")) }
    }

    /// Waits for a short time until the folder of a trigger is watched, so that a change after this
    /// call fires.
    ///
    /// # Errors
    /// `TRIGGER_NOT_FOUND`, `STORAGE_ERROR`.
    pub(super) async fn until_watched(&self, name: &str) -> Result<()> {
        let row = self.row(ScheduleKind::Trigger, name).await?;
        if let FiringSource::Trigger { source: TriggerSource::Files { .. } } = &row.times.starter
            && row.paused.is_none()
        {
            let mut watched = self.0.watched.subscribe();
            // A folder with very many folders below takes longer; one that cannot be watched is
            // shown as paused.
            let _ = timeout(CARRIED_OUT_WITHIN, watched.wait_for(|watched| watched.contains(&row.id))).await;
        }
        Ok(())
    }
}
