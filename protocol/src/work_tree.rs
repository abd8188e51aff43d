//! The base of a worker's diff: the state of its git work tree when its first turn began.
//!
//! `subagent-runtime base` writes it to a folder of the state directory. The folder has the file
//! [`FILE`] with a [`TreeBase`], and a git directory with the objects that the repository may lose.

use serde::{Deserialize, Serialize};

use crate::time::Timestamp;

/// The folder of the state directory with a subfolder for each worker.
pub const FOLDER: &str = "bases";
/// The file in a worker's folder with its [`TreeBase`].
pub const FILE: &str = "base.json";

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
