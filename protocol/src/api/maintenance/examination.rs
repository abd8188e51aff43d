//! The part of the state directory that only the daemon can examine, for `subagent doctor`.

use serde::{Deserialize, Serialize};

use crate::process::ProcessId;

/// `GET /v1/daemon/examination`: checks the state directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Examination {
    /// Result for the database.
    pub database: ExaminedDatabase,
    /// All workers; from below a worker only that one.
    pub workers: Vec<ExaminedWorker>,
    /// Whether these are all workers with readable rows.
    pub all_workers: bool,
    /// Ids of all workers that were not removed, including those with unreadable rows. Other ids
    /// are unknown. Absent from below a worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub known_workers: Option<Vec<String>>,
}

/// The examined state of a database.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ExaminedDatabase {
    /// Version of its schema.
    pub schema: i64,
    /// Size of a page in bytes.
    pub page_bytes: u64,
    /// Number of its pages.
    pub pages: u64,
    /// Number of empty pages.
    pub free_pages: u64,
    /// Errors found by SQLite's own checks; empty if there are none.
    pub problems: Vec<String>,
    /// False if the checks took too long and were ended, or from below a worker,
    /// where none are made.
    pub complete: bool,
    /// Number of worker rows that cannot be read.
    pub unreadable_workers: u64,
}

/// The examined state of a worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ExaminedWorker {
    /// Id of the worker.
    pub worker_id: String,
    /// State of the worker in the database.
    pub state: String,
    /// Why it is set aside: its stored data is invalid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub set_aside: Option<String>,
    /// Process of its live runtime.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime: Option<ProcessId>,
    /// Version of that runtime, after its hello.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime_version: Option<String>,
    /// Whether the runtime lives but does not respond.
    pub unresponsive: bool,
    /// Bytes of its journal that are not in the database yet.
    pub unread_bytes: u64,
    /// How often records of its journal were missing (`journal.gap`).
    pub gaps: u64,
    /// Number of records that this daemon did not understand. They are stored but have
    /// no effect on rules.
    pub misread: u64,
}
