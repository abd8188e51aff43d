//! The changes of a worker's folder since its first turn.

use serde::{Deserialize, Serialize};

use crate::ids::WorkerId;
use crate::state::words;
use crate::work_tree::TreeBase;

words! {
    /// The source of a diff.
    DiffSource {
        /// A comparison by git.
        Git = "git",
        /// The agent's reports of its edits, where git cannot compare.
        Events = "events",
        /// A comparison of a copy of a folder with the folder as it is now.
        Copy = "copy",
    }
}

/// A changed file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct FileChange {
    /// Path in the work tree.
    pub path: String,
    /// The path before a rename.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub old_path: Option<String>,
    /// `added`, `modified`, `deleted`, `renamed`, or `retyped` (for example a file
    /// that became a link).
    pub status: String,
    /// Number of added lines; null for a binary file.
    pub added: Option<u64>,
    /// Number of deleted lines; null for a binary file.
    pub deleted: Option<u64>,
    /// The change as printed by `git diff`; missing if patches are left out.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub patch: String,
}

/// Data of the response `worker.diff`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct WorkerDiff {
    /// Id of the worker.
    pub worker_id: WorkerId,
    /// The source of the changes.
    pub source: DiffSource,
    /// Why they come from events; null if they come from git.
    pub reason: Option<String>,
    /// The state that git has compared with; null without git.
    pub base: Option<TreeBase>,
    /// The first 5,000 changed files. Patches after the first 4 MiB are left out.
    pub files: Vec<FileChange>,
    /// Number of changed files.
    pub count: u64,
    /// Number of added lines of all files.
    pub added: u64,
    /// Number of deleted lines of all files.
    pub deleted: u64,
    /// Whether files or patches are left out.
    pub truncated: bool,
}
