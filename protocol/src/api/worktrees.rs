//! Worktrees of workers: making, looking, landing and removing.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::bytes64::Bytes64;
use crate::ids::WorkerId;
use crate::sandbox::Sandbox;
use crate::state::words;
use crate::time::Timestamp;
use crate::worktree::{Contents, Landed, LandingMode, Setup};

/// What is asked for of a new worktree.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct WorktreeChoice {
    /// The branch that is made; absent: `subagent/NAME`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// The commit that the branch begins with; absent: `HEAD`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
    /// Whether uncommitted and untracked, not ignored files come along.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub with_changes: bool,
}

/// The worktree that a worker is to be started in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct NewWorktree {
    /// The folder of all worktrees, absolute. It is made if it is not there.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub root: PathBuf,
    /// What was asked for.
    #[serde(flatten)]
    pub choice: WorktreeChoice,
    /// What makes it usable.
    #[serde(default)]
    pub setup: Setup,
}

words! {
    /// What has become of a worktree.
    WorktreeState {
        /// It is being made.
        Creating = "creating",
        /// Its worker works in it.
        Ready = "ready",
        /// Its worker is stopped, and it stays because it has work.
        Kept = "kept",
        /// A landing was begun and its end is not known.
        Landing = "landing",
    }
}

/// A worktree.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct WorktreeView {
    /// Its name, unique among those that are there.
    pub name: String,
    /// What has become of it.
    pub state: WorktreeState,
    /// Its top folder.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub path: PathBuf,
    /// Its branch.
    pub branch: String,
    /// The commit that its branch began with.
    pub base: String,
    /// Where it lands by default; null if no branch was checked out.
    pub source_branch: Option<String>,
    /// Whether `base` has changes that were not committed. Landing leaves these out.
    pub with_changes: bool,
    /// The top folder of the work tree that it was made from.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub main: PathBuf,
    /// The git directory of the repository.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub repository: PathBuf,
    /// Its worker, which may have been removed.
    pub worker_id: WorkerId,
    /// When.
    pub created_at: Timestamp,
    /// The sandbox of its agent. Such a worktree is a repository of its own, and its branch is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Sandbox>))]
    pub sandbox: Option<Box<Sandbox>>,
    /// What is in it, where that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contents: Option<Contents>,
}

/// `GET /v1/worktrees`
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct WorktreesListed {
    /// All worktrees, the newest first.
    pub items: Vec<WorktreeView>,
    /// How many there are.
    pub count: usize,
}

/// The variables of the caller that git needs: see [`GIT_VARIABLES`].
pub type GitEnvironment = Vec<(Bytes64, Bytes64)>;

/// Names of the variables that requests about worktrees pass to git, and prefixes of names, which end with `_`.
pub const GIT_VARIABLES: [&str; 15] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "LANG",
    "TMPDIR",
    "EMAIL",
    "XDG_CONFIG_HOME",
    "GNUPGHOME",
    "SSH_AUTH_SOCK",
    "GIT_AUTHOR_",
    "GIT_COMMITTER_",
    "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_SYSTEM",
    "GIT_CONFIG_NOSYSTEM",
];

/// Whether a variable is one of [`GIT_VARIABLES`].
#[must_use]
pub fn is_git_variable(name: &[u8]) -> bool {
    GIT_VARIABLES.iter().any(|known| match known.strip_suffix('_') {
        Some(_) => name.starts_with(known.as_bytes()),
        None => name == known.as_bytes(),
    })
}

/// `POST /v1/worktrees/{worktree}/setup`, `/merge`, `/remove` and `/discard`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ChangeWorktree {
    /// The caller's variables for git; the daemon's own `PATH` and `HOME` count where these are missing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<(String, String)>))]
    pub env: GitEnvironment,
}

/// `POST /v1/worktrees/{worktree}/land`
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct LandWorktree {
    /// The caller's variables for git.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<(String, String)>))]
    pub env: GitEnvironment,
    /// The branch; absent: the one of which the worktree was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub into: Option<String>,
    /// How the commits come to be.
    #[serde(default)]
    pub how: LandingMode,
    /// The message of the commit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Shell commands that must succeed with the merged files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<String>,
    /// Globs of branches into which nothing is landed unless `into` names them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub protected: Vec<String>,
    /// Whether the worktree stays.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub keep: bool,
}

/// Data of `worktree.landed`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct WorktreeLanded {
    /// Its name.
    pub name: String,
    /// Its worker.
    pub worker_id: WorkerId,
    /// Its branch.
    pub branch: String,
    /// What the landing has done.
    #[serde(flatten)]
    pub landed: Landed,
}

/// Data of `worktree.merged`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct WorktreeMerged {
    /// Its name.
    pub name: String,
    /// Its worker.
    pub worker_id: WorkerId,
    /// The files that the main work tree has now as the worktree has them, in the order of their paths.
    pub files: Vec<String>,
    /// The ref that keeps the commits of a worktree that was removed.
    pub retired: Option<String>,
    /// Whether the worktree was removed.
    pub worktree_removed: bool,
}

/// Data of the event `worktree.conflict`: a landing was refused, and nothing was changed.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct WorktreeConflict {
    /// The name of the worktree.
    pub name: String,
    /// The branch that it was to be landed on.
    pub into: String,
    /// The files of which both have changed the same lines.
    pub files: Vec<String>,
}

/// Data of `worktree.removed` and `worktree.discarded`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct WorktreeRemoved {
    /// Its name.
    pub name: String,
    /// Its worker.
    pub worker_id: WorkerId,
    /// Where it was.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub path: PathBuf,
    /// Its branch, which is gone too.
    pub branch: String,
    /// The ref that keeps what was in it; null if it was clean.
    pub retired: Option<String>,
}

/// `POST /v1/worktrees/prune`: removes the clean worktrees of stopped workers, and old refs of retired ones.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct PruneWorktrees {
    /// The caller's variables for git.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<(String, String)>))]
    pub env: GitEnvironment,
    /// The git directory of a repository whose refs of retired worktrees are looked at too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub repository: Option<PathBuf>,
    /// Refs that are older are deleted, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retired_older_than_ms: Option<u64>,
}

/// Data of `worktree.pruned`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct WorktreesPruned {
    /// Worktrees that were removed.
    pub removed: Vec<WorktreeRemoved>,
    /// Worktrees of stopped workers that stay because they have work.
    pub kept: Vec<WorktreeView>,
    /// Refs of retired worktrees that were deleted.
    pub deleted_refs: Vec<String>,
    /// Those that are left.
    pub kept_refs: Vec<String>,
}

/// What has become of the worktree of a worker that was stopped.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", tag = "outcome")]
pub enum WorktreeEnd {
    /// It was removed: nothing was in it.
    Removed {
        /// Its name.
        name: String,
    },
    /// It stays.
    Kept(WorktreeView),
    /// It could not be looked at: it stays.
    Unknown {
        /// Its name.
        name: String,
        /// Why not.
        error: crate::Error,
    },
}
