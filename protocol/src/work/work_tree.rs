//! The base of a worker's diff: the state of its git work tree when its first turn began.

// `subagent-runtime base` writes it to a folder of the state directory. The folder has the file
// [`FILE`] with a [`TreeBase`], and a git directory with the objects that the repository may lose.
// `subagent-runtime diff` reads a [`DiffTask`] and writes a [`Compared`].

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::api::FileChange;
use crate::time::Timestamp;
use crate::worktree::Worktree;

/// The folder of the state directory with a subfolder for each worker.
pub const FOLDER: &str = "bases";
/// The file in a worker's folder with its [`TreeBase`].
pub const FILE: &str = "base.json";

/// Why a worker without a [`TreeBase`] has no diff of git.
pub const NO_REPOSITORY: &str = "its folder was in no git work tree when its first turn began";

/// The input of `subagent-runtime diff`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DiffTask {
    /// The worker's folder with its [`TreeBase`].
    pub folder: PathBuf,
    /// The agent's working directory.
    pub cwd: PathBuf,
    /// The agent's tool calls, to take the changes from instead of git.
    pub events: Option<Vec<Value>>,
    /// The copy of a folder where the agent works, which is compared with the folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copy: Option<Worktree>,
}

/// The output of `subagent-runtime diff`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Compared {
    /// Why git cannot compare, as part of a sentence.
    pub reason: Option<String>,
    /// The changed files, as many as fit.
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

/// The base of a worker's diff.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", tag = "kind")]
pub enum TreeBase {
    /// The state of a git work tree.
    Recorded {
        /// Absolute path of the work tree's top folder.
        root: String,
        /// The commit that was checked out; null before the first commit.
        head: Option<String>,
        /// The tree object with the content of all files, including changed and untracked ones.
        tree: String,
        /// Time of the recording.
        recorded_at: Timestamp,
    },
    /// There is no base.
    Missing {
        /// The reason, as part of a sentence.
        reason: String,
    },
}
