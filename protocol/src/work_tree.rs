//! The base of a worker's diff: the state of its git work tree when its first turn began.
//!
//! `subagent-runtime base` writes it into a folder of the state dir: a git directory of its own, with the objects that
//! the repository may lose, and the file [`FILE`] with a [`TreeBase`].

use serde::{Deserialize, Serialize};

use crate::time::Timestamp;

/// The folder of the state dir with a folder for each worker.
pub const FOLDER: &str = "bases";
/// The file in a worker's folder with its [`TreeBase`].
pub const FILE: &str = "base.json";

/// What a worker's diff starts from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", tag = "kind")]
pub enum TreeBase {
    /// The state of a git work tree.
    Recorded {
        /// The top folder of the work tree, absolute.
        root: String,
        /// The commit that was checked out; null before the first commit.
        head: Option<String>,
        /// The tree object with the content of all files, changed and untracked ones included.
        tree: String,
        /// When.
        recorded_at: Timestamp,
    },
    /// There is none.
    Missing {
        /// Why, as a part of a sentence.
        reason: String,
    },
}
