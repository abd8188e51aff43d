//! The daemon itself.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

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

/// The folder of a state dir: the same for every path that leads to it, another one for a copy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct StateFolder {
    /// The number of the device that the folder is on.
    pub device: u64,
    /// The inode of the folder.
    pub inode: u64,
    /// The random id in the folder; a daemon that finds that it serves a copy renews it. Empty: not known.
    pub id: String,
}

impl StateFolder {
    /// Whether these numbers are the folder's.
    #[must_use]
    pub const fn is(&self, device: u64, inode: u64) -> bool {
        self.device == device && self.inode == inode
    }

    /// Whether both are the same folder; an id that one side does not know proves nothing.
    #[must_use]
    pub fn agrees(&self, other: &Self) -> bool {
        let ids = self.id.is_empty() || other.id.is_empty() || self.id == other.id;
        ids && self.is(other.device, other.inode)
    }
}

/// As the header of a request says it: `device:inode:id`.
impl fmt::Display for StateFolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.device, self.inode, self.id)
    }
}

/// A text that is no folder of a state dir.
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
    /// The folder that `state_dir` leads to, for clients that come by another path, and those in a copy. Absent: a daemon
    /// of an older version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state_folder: Option<StateFolder>,
    /// `foreground` or `background`.
    pub mode: String,
    /// Whether it is ending in order. A runtime does not start a daemon again that died after this.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ending: bool,
    /// Since when.
    pub started_at: Timestamp,
}
