//! What only the daemon can see of its state dir, for `subagent doctor`.

use serde::{Deserialize, Serialize};

use crate::process::ProcessId;

/// `GET /v1/daemon/examination`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Examination {
    /// The database.
    pub database: ExaminedDatabase,
    /// All workers; from below a worker that one alone.
    pub workers: Vec<ExaminedWorker>,
    /// Whether these are all whose rows can be read.
    pub all_workers: bool,
    /// The ids of all that were not removed, also of those whose rows cannot be read: what is not among them is known to
    /// nobody. Not told from below a worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub known_workers: Option<Vec<String>>,
}

/// A database as it was found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ExaminedDatabase {
    /// The version of its tables.
    pub schema: i64,
    /// Size of a page in bytes.
    pub page_bytes: u64,
    /// Its pages.
    pub pages: u64,
    /// Those that hold nothing.
    pub free_pages: u64,
    /// What SQLite's own checks say is wrong; empty when it is sound.
    pub problems: Vec<String>,
    /// False when the checks took too long and were ended, and from below a worker, where none are made.
    pub complete: bool,
    /// How many rows of workers cannot be read at all.
    pub unreadable_workers: u64,
}

/// A worker as it was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ExaminedWorker {
    /// Its id.
    pub worker_id: String,
    /// Its stored state.
    pub state: String,
    /// Why it is set aside: what is stored of it cannot be used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub set_aside: Option<String>,
    /// Its runtime, if one lives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime: Option<ProcessId>,
    /// The version of that runtime, once it has said hello.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime_version: Option<String>,
    /// Whether the runtime lives and does not answer.
    pub unresponsive: bool,
    /// Bytes of its journal that are not in the database yet.
    pub unread_bytes: u64,
    /// How often records of its journal were missing (`journal.gap`).
    pub gaps: u64,
    /// Records that this daemon did not understand; they are stored, and kept out of the rules.
    pub misread: u64,
}
