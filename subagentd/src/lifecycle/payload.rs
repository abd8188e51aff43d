//! The content of the status file (contract section 15), and writing it.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use subagent_protocol::json;
use subagent_protocol::time::Timestamp;

use super::claim::files;
use super::options::RunOptions;

/// The status file without the health of the workers.
#[derive(Debug, Clone)]
pub(super) struct Payload {
    /// Pid of the daemon.
    pub(super) pid: i32,
    /// Time of the daemon's start.
    pub(super) started_at: Timestamp,
    /// Mode: `foreground` or `once`.
    pub(super) mode: &'static str,
    /// Time of the daemon's end.
    pub(super) stopped_at: Option<Timestamp>,
}

impl Payload {
    /// Builds the whole object with the current time as heartbeat.
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
            json::extend(&mut payload, [("stoppedAt", json!(stopped_at))]);
        }
        payload
    }
}

/// Replaces the status file. A failure is only logged: the daemon does not depend on the file.
pub(super) fn write(options: &RunOptions, payload: &Value) {
    let text = json::indented(payload.clone());
    if let Err(error) = files::replace(&options.state_dir, files::STATUS_FILE, text.as_bytes()) {
        tracing::error!(%error, "the status file cannot be written");
    }
}

/// Returns the current time for display. It must not be used for ordering.
pub(super) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
