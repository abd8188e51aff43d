//! The status file's content (contract section 15), and writing it.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use subagent_protocol::json;
use subagent_protocol::time::Timestamp;

use super::files;
use super::options::RunOptions;

/// What the status file says, but for the health of the workers.
#[derive(Debug, Clone)]
pub(super) struct Payload {
    /// The daemon.
    pub(super) pid: i32,
    /// Since when.
    pub(super) started_at: Timestamp,
    /// `foreground` or `once`.
    pub(super) mode: &'static str,
    /// When it ended.
    pub(super) stopped_at: Option<Timestamp>,
}

impl Payload {
    /// The whole object, with a heartbeat of now.
    pub(super) fn with_health(&self, options: &RunOptions, health: &Value) -> Value {
        let state_dir = &options.state_dir;
        let mut payload = json!({
            "schemaVersion": "v1",
            "pid": self.pid,
            "stateDir": state_dir.display().to_string(),
            "dbPath": state_dir.join("state.db").display().to_string(),
            "startedAt": self.started_at,
            "lastHeartbeatAt": now(),
            "mode": self.mode,
            "monitorWorkers": options.monitor_workers,
            "workerHealth": health,
        });
        if let Some(stopped_at) = self.stopped_at {
            payload["stoppedAt"] = json!(stopped_at);
        }
        payload
    }
}

/// Replaces the status file. A failure is logged: the daemon's work does not depend on it.
pub(super) fn write(options: &RunOptions, payload: &Value) {
    let text = json::indented(payload.clone());
    if let Err(error) = files::replace(&options.state_dir, files::STATUS_FILE, text.as_bytes()) {
        tracing::error!(%error, "the status file cannot be written");
    }
}

/// The time now, for people. Nothing is ordered by it.
pub(super) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
