//! Worktrees of workers: creating, inspecting, landing and removing.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::bytes64::Bytes64;
use crate::ids::WorkerId;
use crate::sandbox::Sandbox;
use crate::state::words;
use crate::time::Timestamp;
use crate::worktree::{Contents, Copied, Landed, LandingMode, Setup, Worktree, is_zero};

/// The options of a new worktree.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct WorktreeChoice {
    /// The branch to create; absent: `subagent/NAME`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// The first commit of the branch; absent: `HEAD`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
    /// Whether to include uncommitted and untracked files that are not ignored.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub with_changes: bool,
}

/// The worktree for a new worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct NewWorktree {
    /// Absolute folder of all worktrees, created if necessary.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub root: PathBuf,
    /// The options requested for the worktree.
    #[serde(flatten)]
    pub choice: WorktreeChoice,
    /// How to make it usable.
    #[serde(default)]
    pub setup: Setup,
    /// When it is a copy of the folder instead of a git worktree.
    #[serde(default)]
    pub copy: CopyMode,
    /// Maximum size of a copy in bytes.
    #[serde(default = "default_copy_limit")]
    pub copy_limit: u64,
    /// The folder of its repository on this machine, for a worker on another one. Absent: the worker's
    /// own folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub source: Option<PathBuf>,
}

/// Maximum size of a copy without `worktrees.copyLimit`, in bytes: 1 GiB.
pub const COPY_LIMIT: u64 = 1 << 30;

const fn default_copy_limit() -> u64 {
    COPY_LIMIT
}

words! {
    /// When a worker gets a copy of its folder instead of a git worktree.
    #[derive(Default)]
    CopyMode {
        /// Never: without git the start fails.
        #[default]
        Never = "never",
        /// If the folder is in no git repository, or git is missing.
        WithoutGit = "withoutGit",
        /// Always.
        Always = "always",
    }
}

words! {
    /// The state of a worktree.
    WorktreeState {
        /// It is being created.
        Creating = "creating",
        /// Its worker works in it.
        Ready = "ready",
        /// Its worker is stopped, and it is kept because it contains work.
        Kept = "kept",
        /// A landing has begun, and its end is unknown.
        Landing = "landing",
    }
}

/// A worktree of a worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct WorktreeView {
    /// Name, unique among existing worktrees.
    pub name: String,
    /// State of the worktree.
    pub state: WorktreeState,
    /// Path of its top folder.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub path: PathBuf,
    /// Name of its branch.
    pub branch: String,
    /// The first commit of its branch.
    pub base: String,
    /// Its default target; null if no branch was checked out.
    pub source_branch: Option<String>,
    /// Whether `base` contains uncommitted changes, which a landing omits.
    pub with_changes: bool,
    /// Top folder of the work tree that it was created from.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub main: PathBuf,
    /// Git directory of the repository.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub repository: PathBuf,
    /// Set if it is a copy of the folder `main`, without git.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copied: Option<Copied>,
    /// Whether git had no name and email address for commits when it was planned. Landing it
    /// needs them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub identity_missing: bool,
    /// Its worker, which may have been removed.
    pub worker_id: WorkerId,
    /// Time of its creation.
    pub created_at: Timestamp,
    /// The sandbox of its agent. Such a worktree is a separate repository that contains its branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Sandbox>))]
    pub sandbox: Option<Box<Sandbox>>,
    /// Where its worker works, if that is on another machine. This worktree is then a mirror, which each
    /// command brings up to date.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placed: Option<PlacedWorktreeView>,
    /// Its content, if requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contents: Option<Contents>,
}

/// The worktree on another machine in which a worker works.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct PlacedWorktreeView {
    /// Name of the placement of its worker.
    pub placement: String,
    /// Its top folder: absolute, or `~/...` of the user there.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub path: PathBuf,
}

impl WorktreeView {
    /// Returns the worktree on this machine for an operation.
    #[must_use]
    pub fn worktree(&self) -> Worktree {
        Worktree {
            name: self.name.clone(),
            repository: self.repository.clone(),
            main: self.main.clone(),
            path: self.path.clone(),
            branch: self.branch.clone(),
            base: self.base.clone(),
            source_branch: self.source_branch.clone(),
            with_changes: self.with_changes,
            copied: self.copied.clone(),
            identity_missing: self.identity_missing,
            sandbox: self.sandbox.clone(),
            placed: None,
        }
    }
}

/// `GET /v1/worktrees`: all worktrees.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct WorktreesListed {
    /// All worktrees, newest first.
    pub items: Vec<WorktreeView>,
    /// Number of the worktrees.
    pub count: usize,
}

/// The caller's variables for git: see [`GIT_VARIABLES`].
pub type GitEnvironment = Vec<(Bytes64, Bytes64)>;

/// Names of the variables that requests about worktrees pass to git, and prefixes of names,
/// which end with `_`.
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

/// `POST /v1/worktrees/{worktree}/setup`, `/merge` and `/remove`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ChangeWorktree {
    /// The caller's variables for git; the daemon's own `PATH` and `HOME` replace missing ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<(String, String)>))]
    pub env: GitEnvironment,
}

/// `POST /v1/worktrees/{worktree}/discard`: what it had stays under a ref.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct DiscardWorktree {
    /// The caller's variables for git, as in [`ChangeWorktree`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<(String, String)>))]
    pub env: GitEnvironment,
    /// Does not ask the host of the worktree, which is given up: what only it has stays there.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub without_host: bool,
}

/// `POST /v1/worktrees/{worktree}/land`: lands the changes.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct LandWorktree {
    /// The caller's variables for git.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<(String, String)>))]
    pub env: GitEnvironment,
    /// The target branch; absent: the one that the worktree was created from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub into: Option<String>,
    /// How the commits are made.
    #[serde(default)]
    pub how: LandingMode,
    /// The message of the commit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Shell commands that must succeed with the merged files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<String>,
    /// Globs of branches that only an explicit `into` can change.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub protected: Vec<String>,
    /// Whether to keep the worktree.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub keep: bool,
}

/// Data of the response `worktree.landed`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct WorktreeLanded {
    /// Name of the worktree.
    pub name: String,
    /// Id of its worker.
    pub worker_id: WorkerId,
    /// Name of its branch.
    pub branch: String,
    /// Result of the landing.
    #[serde(flatten)]
    pub landed: Landed,
}

/// Data of the response and the event `worktree.merged`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct WorktreeMerged {
    /// Name of the worktree.
    pub name: String,
    /// Id of its worker.
    pub worker_id: WorkerId,
    /// The files that are now as in the worktree, in the main work tree, sorted by path: the first
    /// 100 of them.
    pub files: Vec<String>,
    /// Number of such files that `files` omits.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more_files: u64,
    /// Files that stay unchanged: they changed on both sides, or an automatic merge leaves them out
    /// because they say what agents may do. The first 100 of them. Only the event has any: the
    /// request fails with `LAND_CONFLICT`.
    pub refused: Vec<String>,
    /// Number of such files that `refused` omits.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more_refused: u64,
    /// The ref that keeps the commits of a removed worktree.
    pub retired: Option<String>,
    /// Whether the worktree was removed.
    pub worktree_removed: bool,
}

/// Data of the event `worktree.conflict`: a landing was refused without any change.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct WorktreeConflict {
    /// Name of the worktree.
    pub name: String,
    /// The target branch of the landing.
    pub into: String,
    /// The files with conflicting changes, the first 100 of them.
    pub files: Vec<String>,
    /// Number of such files that `files` omits.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more_files: u64,
}

/// Data of `worktree.removed` and `worktree.discarded`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct WorktreeRemoved {
    /// Name of the worktree.
    pub name: String,
    /// Id of its worker.
    pub worker_id: WorkerId,
    /// Its former top folder.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub path: PathBuf,
    /// Its former branch, which is deleted too.
    pub branch: String,
    /// The ref that keeps its content; null if it was clean.
    pub retired: Option<String>,
}

/// `POST /v1/worktrees/prune`: removes the clean worktrees of stopped workers, old refs of retired
/// ones, and old discarded copies.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct PruneWorktrees {
    /// The caller's variables for git.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<(String, String)>))]
    pub env: GitEnvironment,
    /// The git directory of a repository whose refs of retired worktrees are also pruned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub repository: Option<PathBuf>,
    /// The folder of copies whose discarded ones are also pruned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub copies: Option<PathBuf>,
    /// Minimum age of the refs and discarded copies to delete, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retired_older_than_ms: Option<u64>,
}

/// Data of the response `worktree.pruned`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct WorktreesPruned {
    /// Worktrees that were removed.
    pub removed: Vec<WorktreeRemoved>,
    /// Kept worktrees of stopped workers that contain work.
    pub kept: Vec<WorktreeView>,
    /// Deleted refs of retired worktrees.
    pub deleted_refs: Vec<String>,
    /// Refs that are kept.
    pub kept_refs: Vec<String>,
    /// Paths of deleted copies that had been discarded.
    #[serde(default)]
    pub deleted_copies: Vec<String>,
    /// Paths of discarded copies that are kept.
    #[serde(default)]
    pub kept_copies: Vec<String>,
}

/// What happened to the worktree of a stopped worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", tag = "outcome")]
pub enum WorktreeEnd {
    /// It was removed, because it was empty.
    Removed {
        /// Name of the worktree.
        name: String,
    },
    /// It is kept with its work.
    Kept(Box<WorktreeView>),
    /// It is kept, because its content is unknown.
    Unknown {
        /// Name of the worktree.
        name: String,
        /// The error of the inspection.
        error: crate::Error,
    },
}
