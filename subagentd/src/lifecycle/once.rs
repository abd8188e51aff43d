//! `subagentd run --once`: one health check of the workers, by the running daemon if there is one.

use std::time::Duration;

use axum::http::Method;
use serde_json::{Value, json};
use subagent_protocol::api::CheckHealth;
use subagent_protocol::{Code, Error, Result};
use tokio::time::Instant;

use super::claim::files::{DAEMON_LOCK, daemon_info};
use super::claim::lock::{FileLock, Note};
use super::claim::takeover::{ONCE, own_process};
use super::options::{RunOptions, StartMode};
use super::payload::{self, Payload};
use super::report::StartReporter;
use super::serve::{DRAIN_TIME, open};
use super::{client, error, log, runtime};
use crate::supervisor;
use crate::supervisor::HealthCheckOptions;

/// Maximum wait for the running daemon's answer.
const ANSWER_TIME: Duration = Duration::from_secs(30);

/// Checks the workers, writes the status file and reports.
///
/// # Errors
/// Errors of the state dir, the store, or the running daemon.
pub(super) fn run(options: &RunOptions, report: &mut StartReporter) -> Result<()> {
    let path = options.state_dir.join(DAEMON_LOCK);
    let lock = FileLock::try_take(&path)
        .map_err(|cause| error::at_path("its lock cannot be taken:", &path, &cause))?;
    let payload = match &lock {
        Some(lock) => {
            let note = Note { process: own_process()?, mode: ONCE.to_owned() };
            lock.write_note(&note)
                .map_err(|cause| error::at_path("its lock cannot be written:", &path, &cause))?;
            look(options, note.process.pid)?
        }
        None => ask(options)?,
    };
    // A foreground daemon writes the file itself.
    let foreground = StartMode::Foreground.as_str();
    if lock.is_some() || Note::read(&path).is_none_or(|note| note.mode != foreground) {
        payload::write(options, &payload);
    }
    let database = options.state_dir.join("state.db");
    report.ready(&payload, &format!("subagentd initialized: {}", database.display()));
    Ok(())
}

fn look(options: &RunOptions, pid: i32) -> Result<Value> {
    let _log = log::init(options)?;
    let runtime = runtime()?;
    let health = runtime.block_on(async {
        let began = Instant::now();
        let (supervisor, _) = open(options).await?;
        let health = supervisor::runtimes::health::health(
            &supervisor,
            HealthCheckOptions { since: began, restart: options.restart_cooldown() },
        )
        .await;
        let ended = tokio::time::timeout(DRAIN_TIME, supervisor.shutdown(false)).await;
        ended.unwrap_or_else(|_| Err(Error::new(Code::StorageError, "the store did not close in time")))?;
        Ok::<_, Error>(health)
    })?;
    runtime.shutdown_timeout(super::LAST_GRACE);
    let payload = Payload { pid, started_at: payload::now(), mode: ONCE, stopped_at: None };
    Ok(payload.with_health(options, &health))
}

fn ask(options: &RunOptions) -> Result<Value> {
    let info = daemon_info(&options.state_dir).ok_or_else(|| {
        Error::new(Code::DaemonNotRunning, "a daemon is just starting or ending; try again").retryable()
    })?;
    let restart_cooldown_seconds = options.restart_cooldown().map(|cooldown| cooldown.as_secs());
    let request = json!(CheckHealth { restart_cooldown_seconds });
    let health = client::request(&info, Method::POST, "/v1/daemon/health", Some(&request), ANSWER_TIME)?;
    let payload =
        Payload { pid: info.process.pid, started_at: info.started_at, mode: ONCE, stopped_at: None };
    Ok(payload.with_health(options, &health))
}
