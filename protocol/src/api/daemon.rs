//! The daemon itself.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::process::ProcessId;
use crate::time::Timestamp;

/// `POST /v1/daemon/stop`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct StopDaemon {
    /// Also stop all workers.
    #[serde(default)]
    pub workers: bool,
}

/// `POST /v1/daemon/health`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct CheckHealth {
    /// Start dead runtimes again, each at the earliest so many seconds after the last attempt, 0 to
    /// 31622400; absent: only look.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restart_cooldown_seconds: Option<u64>,
}

/// `GET /v1/daemon`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct DaemonShown {
    /// What stays the same while it runs.
    #[serde(flatten)]
    pub info: DaemonInfo,
    /// How many workers have a live runtime.
    pub live_workers: usize,
}

/// What `daemon.json` holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct DaemonInfo {
    /// The newest protocol that it speaks.
    pub protocol: u32,
    /// The oldest protocol that it understands.
    pub oldest_protocol: u32,
    /// The version of its package.
    pub version: String,
    /// Its process.
    pub process: ProcessId,
    /// Raised at every start.
    pub generation: u64,
    /// Its socket.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub socket: PathBuf,
    /// Its state dir.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub state_dir: PathBuf,
    /// `foreground` or `background`.
    pub mode: String,
    /// Since when.
    pub started_at: Timestamp,
}
