//! Checks of what triggers wait for, when one is added and when its token is shown.

use sha2::{Digest as _, Sha256};
use subagent_protocol::ids::hex;
use subagent_protocol::time::Timestamp;
use subagent_protocol::trigger::TriggerSource;
use subagent_protocol::{Code, Error, Result};
use subtle::ConstantTimeEq as _;
use tokio::time::timeout;

use super::watching::Globs;
use super::{CARRIED_OUT_WITHIN, Schedules, wrong};
use crate::store::schedules::{ScheduleKind, Starter};
use crate::store::{Connection, trigger_sources};
use crate::supervisor::entropy;

/// Maximum length of a command, in bytes.
const MAX_COMMAND: usize = 16 * 1024;
/// Maximum time of one run, in seconds.
const MAX_RUN_SECONDS: u64 = 3600;
/// Maximum time between two runs, in seconds: a hundred years.
const MAX_EVERY_SECONDS: u64 = 36_600 * 24 * 3600;
/// Shortest and longest time to wait for further changes, in milliseconds.
const DEBOUNCE: std::ops::RangeInclusive<u64> = 10..=3_600_000;
/// Digits of a SHA-256.
const SHA_256_DIGITS: usize = 64;

impl Schedules {
    /// What a trigger waits for has to exist now. Returns the worker of the task that it waits for.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT{field}`, `SCHEDULE_UNATTENDED`, `WORKER_NOT_FOUND`, `WORKER_STOPPED`.
    pub(super) async fn check_source(&self, source: &mut TriggerSource) -> Result<Option<String>> {
        let refused = |problem: &str| Err(wrong("source", problem.to_owned()));
        match source {
            TriggerSource::Request {} => {}
            TriggerSource::After { worker, .. } => {
                *worker = self.0.supervisor.find_worker(worker).await?;
                let id = worker.clone();
                let read = move |connection: &Connection| trigger_sources::task_of_source(connection, &id);
                return self.0.stream.store.read(read).await;
            }
            TriggerSource::Command { command, cwd, every_seconds, timeout_seconds } => {
                if command.trim().is_empty() || command.len() > MAX_COMMAND || command.contains('\0') {
                    return refused("the command is empty, too long, or has a NUL character");
                }
                if !(1..=MAX_EVERY_SECONDS).contains(every_seconds) {
                    return refused("a command runs every second, or less often");
                }
                if !(1..=MAX_RUN_SECONDS).contains(timeout_seconds) {
                    return refused("the deadline of a command is 1 to 3600 seconds");
                }
                check_folder(cwd)?;
                let now = entropy::now();
                let millis = i64::try_from(every_seconds.saturating_mul(1000)).unwrap_or(i64::MAX);
                self.check_attended(Timestamp(now.0.saturating_add(millis)), now)?;
            }
            TriggerSource::Files { folder, globs, debounce_ms } => {
                Globs::new(globs).map_err(|problem| wrong("source", problem))?;
                if !DEBOUNCE.contains(debounce_ms) {
                    return refused("the time to wait for further changes is 10 ms to an hour");
                }
                check_folder(folder)?;
            }
            TriggerSource::Webhook { token_sha256 } => {
                let is_digit = |char: char| char.is_ascii_digit() || ('a'..='f').contains(&char);
                let is_hash = |text: &&str| text.len() == SHA_256_DIGITS && text.chars().all(is_digit);
                if token_sha256.as_deref().filter(is_hash).is_none() {
                    return refused("a webhook needs the SHA-256 of its token, as 64 lowercase digits");
                }
            }
        }
        Ok(None)
    }

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
            Starter::Trigger { source: TriggerSource::Webhook { token_sha256 } } => token_sha256,
            _ => None,
        });
        let given = hex(&Sha256::digest(token.as_bytes()));
        let is_right = stored.is_some_and(|stored| stored.as_bytes().ct_eq(given.as_bytes()).into());
        if is_right { Ok(()) } else { Err(Error::new(Code::Unauthorized, "no trigger has this token")) }
    }

    /// Waits for a short time until the folder of a trigger is watched, so that a change after this call fires.
    ///
    /// # Errors
    /// `TRIGGER_NOT_FOUND`, `STORAGE_ERROR`.
    pub(super) async fn until_watched(&self, name: &str) -> Result<()> {
        let row = self.row(ScheduleKind::Trigger, name).await?;
        if let Starter::Trigger { source: TriggerSource::Files { .. } } = &row.times.starter
            && row.paused.is_none()
        {
            let mut watched = self.0.watched.subscribe();
            // A folder with very many folders below takes longer; one that cannot be watched is shown as paused.
            let _ = timeout(CARRIED_OUT_WITHIN, watched.wait_for(|watched| watched.contains(&row.id))).await;
        }
        Ok(())
    }
}

fn check_folder(folder: &std::path::Path) -> Result<()> {
    if folder.is_absolute() && folder.is_dir() {
        return Ok(());
    }
    Err(wrong("source", format!("{} is not the absolute path of a folder", folder.display())))
}
