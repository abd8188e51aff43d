//! Requests about the daemon itself.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::process::ProcessId;
use crate::time::Timestamp;

/// `POST /v1/daemon/stop`: ends the daemon.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct StopDaemon {
    /// Also stop all workers.
    #[serde(default)]
    pub workers: bool,
}

/// `POST /v1/daemon/health`: checks the workers' runtimes.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct CheckHealth {
    /// Restart dead runtimes, each at least this many seconds (0 to 31622400) after the last
    /// attempt. If absent, only check.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restart_cooldown_seconds: Option<u64>,
}

/// `GET /v1/daemon`: the running daemon.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct DaemonShown {
    /// Facts that do not change while it runs.
    #[serde(flatten)]
    pub info: DaemonInfo,
    /// Number of workers with a live runtime.
    pub live_workers: usize,
}

/// Identity of a state directory: the same for every path to it, different for a copy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct StateFolder {
    /// Number of the device that contains the folder.
    pub device: u64,
    /// Inode number of the folder.
    pub inode: u64,
    /// Random id stored in the folder. A daemon that serves a copy renews it. Empty: unknown.
    pub id: String,
}

impl StateFolder {
    /// Whether these numbers are the folder's.
    #[must_use]
    pub const fn is(&self, device: u64, inode: u64) -> bool {
        self.device == device && self.inode == inode
    }

    /// Whether both may be the same folder. An id unknown to one side proves nothing.
    #[must_use]
    pub fn agrees(&self, other: &Self) -> bool {
        let ids = self.id.is_empty() || other.id.is_empty() || self.id == other.id;
        ids && self.is(other.device, other.inode)
    }
}

/// The format of the request header: `device:inode:id`.
impl fmt::Display for StateFolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.device, self.inode, self.id)
    }
}

/// The text does not identify a state directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected device:inode:id")]
pub struct NoStateFolder;

impl FromStr for StateFolder {
    type Err = NoStateFolder;

    fn from_str(text: &str) -> Result<Self, NoStateFolder> {
        let mut parts = text.splitn(3, ':');
        let (Some(device), Some(inode), Some(id)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(NoStateFolder);
        };
        let number = |part: &str| part.parse().map_err(|_| NoStateFolder);
        Ok(Self { device: number(device)?, inode: number(inode)?, id: id.to_owned() })
    }
}

/// The content of `daemon.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct DaemonInfo {
    /// The newest protocol version it supports.
    pub protocol: u32,
    /// The oldest protocol version it supports.
    pub oldest_protocol: u32,
    /// Version of its package.
    pub version: String,
    /// The daemon's process identity.
    pub process: ProcessId,
    /// Incremented at every start.
    pub generation: u64,
    /// Path of its socket.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub socket: PathBuf,
    /// Path of its state directory.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub state_dir: PathBuf,
    /// The folder behind `state_dir`, for clients with another path and those in a copy. Absent for
    /// daemons of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state_folder: Option<StateFolder>,
    /// `foreground` or `background`, as text; `placed` in a file of [`crate::placement::PLACED_MODE`].
    pub mode: String,
    /// Whether it is ending in order. Runtimes do not restart a daemon that died after this.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ending: bool,
    /// Time of the daemon's start.
    pub started_at: Timestamp,
}

/// The content of `daemon.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Announced {
    /// The daemon that wrote the file.
    #[serde(flatten)]
    pub info: DaemonInfo,
    /// Whether sinks of notifications or schedules wait for events and times. If the daemon dies,
    /// any runtime restarts it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub awaited: bool,
}

/// Data of `panel.permitted`: nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PanelPermitted {}
