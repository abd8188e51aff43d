//! Git worktrees of workers: what one is, and the operations of `subagent-runtime worktree`.
//!
//! That program reads one [`Operation`] from its standard input and writes one [`Answer`] to its standard output, as
//! one line of JSON each. An operation that was killed can be repeated: it finishes what is left, or undoes it.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::Error;
use crate::sandbox::Sandbox;
use crate::time::Timestamp;

/// The folder of branches that are made without a name of the user: `subagent/NAME`.
pub const BRANCH_PREFIX: &str = "subagent/";
/// The folder of refs that keep the work of discarded and landed worktrees: `refs/subagent/retired/NAME/TIME`.
pub const RETIRED_REFS: &str = "refs/subagent/retired/";

/// A worktree: all that must be known to make, look at, land or remove it. All paths are absolute.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Worktree {
    /// Its name, unique in its repository. One component of a path.
    pub name: String,
    /// The common git directory of the repository (`git rev-parse --git-common-dir`).
    pub repository: PathBuf,
    /// The top folder of the work tree that it was made from.
    pub main: PathBuf,
    /// Its own top folder.
    pub path: PathBuf,
    /// Its branch, without `refs/heads/`.
    pub branch: String,
    /// The commit that its branch began with.
    pub base: String,
    /// The branch of the work tree that it was made from, if one was checked out: where it lands by default.
    pub source_branch: Option<String>,
    /// Whether `base` is a commit of changes that the main work tree had not committed. Landing leaves these out.
    pub with_changes: bool,
    /// The sandbox of its agent. Such a worktree is a repository of its own, which borrows the objects of `repository`.
    /// Its agent may have changed anything in it, so git runs there inside of the sandbox only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<Box<Sandbox>>,
}

impl Worktree {
    /// The same as the repository of its own that it is: what a process inside of the sandbox sees.
    #[must_use]
    pub fn from_inside(&self) -> Self {
        Self { repository: self.path.join(".git"), sandbox: None, ..self.clone() }
    }

    /// Whether it is seen as [`Self::from_inside`].
    #[must_use]
    pub fn is_inside(&self) -> bool {
        self.repository == self.path.join(".git")
    }
}

/// How a new worktree is made usable.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Setup {
    /// Shell commands, run one after the other with `sh -c` in the worktree.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<String>,
    /// Globs of files of the main work tree, relative to its top, that are copied. Files that are there already stay.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub copy: Vec<String>,
}

/// One operation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", tag = "operation")]
pub enum Operation {
    /// Finds out what a new worktree would be made from. Changes nothing, but for the objects of `with_changes`.
    Plan {
        /// The folder in which the worker was to work.
        cwd: PathBuf,
        /// The folder of all worktrees.
        root: PathBuf,
        /// The branch, where the user names it. It must not exist.
        branch: Option<String>,
        /// The commit that it begins with; without one `HEAD`.
        base: Option<String>,
        /// Whether uncommitted and untracked, not ignored files come along, as a commit on top of `HEAD`.
        with_changes: bool,
    },
    /// Makes the worktree with its branch, and copies and runs what makes it usable. May be repeated.
    Create {
        /// Which.
        worktree: Worktree,
        /// What makes it usable.
        setup: Setup,
    },
    /// Copies and runs again what makes it usable.
    Setup {
        /// Which.
        worktree: Worktree,
        /// What makes it usable.
        setup: Setup,
    },
    /// Looks what is in it. Changes nothing.
    Look {
        /// Which.
        worktree: Worktree,
    },
    /// Removes it with its branch if nothing would be lost; else it stays as it is.
    Remove {
        /// Which.
        worktree: Worktree,
    },
    /// Keeps all that is in it under a ref of [`RETIRED_REFS`], and removes it with its branch.
    Discard {
        /// Which.
        worktree: Worktree,
        /// When: the last part of the ref.
        time: Timestamp,
    },
    /// Brings its changes to another branch of the repository.
    Land {
        /// Which.
        worktree: Worktree,
        /// How, and where to.
        landing: Box<Landing>,
    },
    /// Brings its changes to the files of the main work tree, one by one and without a commit. A file that has changed
    /// on both sides stays as it is.
    Merge {
        /// Which.
        worktree: Worktree,
        /// Of what counts for a landing: `id`, `trailer` and `then`.
        landing: Box<Landing>,
    },
    /// Finishes a landing that was killed after the target branch was moved. Changes nothing if none was.
    Recover {
        /// The common git directory of the repository.
        repository: PathBuf,
    },
    /// Lists the refs of [`RETIRED_REFS`], and deletes those that are older than a time.
    Prune {
        /// The common git directory of the repository.
        repository: PathBuf,
        /// Refs from before are deleted; none without it.
        before: Option<Timestamp>,
    },
}

/// How a worktree is landed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Landing {
    /// When it was first asked for, in milliseconds since 1970. Identifies the landing: a repetition with the same id
    /// returns the first answer. Not a [`Timestamp`], which has whole seconds as JSON: two landings fit into one.
    pub id: i64,
    /// The branch; without one that of which the worktree was made.
    pub into: Option<String>,
    /// How the commits come to be.
    pub how: LandingMode,
    /// The message of the commit; without one it is made of the worktree's commits.
    pub message: Option<String>,
    /// The trailer of the commits that are made, such as `Subagent: auth, codex, w_0123456789ab`.
    pub trailer: String,
    /// Shell commands that must succeed with the merged files before the branch moves.
    pub checks: Vec<String>,
    /// Globs of branches into which nothing is landed unless `into` names them.
    pub protected: Vec<String>,
    /// What happens to the worktree afterwards.
    pub then: AfterLanding,
}

impl Landing {
    /// When it was first asked for: the last part of the ref that keeps the worktree's commits.
    #[must_use]
    pub const fn time(&self) -> Timestamp {
        Timestamp(self.id)
    }
}

/// How the commits of a landing come to be.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub enum LandingMode {
    /// One commit with all changes.
    #[default]
    Squash,
    /// A merge commit.
    Merge,
    /// The worktree's commits again, on top of the target.
    Rebase,
}

/// What happens to a worktree that has landed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum AfterLanding {
    /// It is removed with its branch. A ref of [`RETIRED_REFS`] keeps its commits.
    Remove,
    /// It stays as it is.
    Keep,
    /// Its branch goes on at what has landed: its worker works on.
    GoOn,
}

/// The answer to an operation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Answer {
    /// To [`Operation::Plan`].
    Planned(Plan),
    /// To [`Operation::Create`] and [`Operation::Setup`].
    Ready,
    /// To [`Operation::Look`], and to [`Operation::Remove`] of one that stays.
    Found(Contents),
    /// To [`Operation::Remove`] of one that is gone.
    Removed,
    /// To [`Operation::Discard`]: the ref that keeps what was in it; none if it was clean or gone.
    Discarded(Option<String>),
    /// To [`Operation::Land`].
    Landed(Landed),
    /// To [`Operation::Merge`].
    Merged(Merged),
    /// To [`Operation::Recover`]: the branch whose landing was finished.
    Recovered(Option<String>),
    /// To [`Operation::Prune`].
    Pruned {
        /// The refs that are left.
        kept: Vec<String>,
        /// Those that were deleted.
        deleted: Vec<String>,
    },
    /// It failed; nothing has changed but what the error says.
    Failed(Error),
}

/// What a new worktree is made from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    /// See [`Worktree::repository`].
    pub repository: PathBuf,
    /// See [`Worktree::main`].
    pub main: PathBuf,
    /// The folder for the worktrees of this repository: `root/REPOSITORY-HASH`.
    pub folder: PathBuf,
    /// The path from `main` to the worker's folder; empty at the top.
    pub prefix: PathBuf,
    /// See [`Worktree::base`].
    pub base: String,
    /// See [`Worktree::source_branch`].
    pub source_branch: Option<String>,
    /// See [`Worktree::with_changes`].
    pub with_changes: bool,
    /// Names that are taken: of entries of `folder`, and of branches below [`BRANCH_PREFIX`].
    pub taken: Vec<String>,
}

/// What is in a worktree that is not in its base.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Contents {
    /// Whether its folder is there.
    pub exists: bool,
    /// Files that differ from the base, uncommitted and untracked ones included.
    pub files: u64,
    /// Lines that were added to text files.
    pub added: u64,
    /// Lines that were removed from text files.
    pub removed: u64,
    /// Files with changes that are not committed, and untracked files that are not ignored.
    pub uncommitted: u64,
    /// Commits that no other ref has.
    pub commits: u64,
    /// What is under way in it: `merge`, `rebase`, `cherry-pick`, `revert` or `bisect`.
    pub under_way: Option<String>,
    /// Ignored files that are newer than its setup.
    pub ignored: u64,
    /// The files that differ from the base, at most 100 of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
}

impl Contents {
    /// Whether its removal loses nothing.
    #[must_use]
    pub const fn is_clean(&self) -> bool {
        self.uncommitted == 0 && self.commits == 0 && self.ignored == 0 && self.under_way.is_none()
    }
}

/// What a merge has done, file by file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Merged {
    /// The files that the main work tree has now as the worktree has them.
    pub files: Vec<String>,
    /// Those that have changed on both sides, and stay as they are.
    pub refused: Vec<String>,
    /// The commit from which the worktree's changes count now: it has the merged files.
    pub base: String,
    /// The ref that keeps the commits of a worktree that was removed.
    pub retired: Option<String>,
    /// Whether the worktree was removed.
    pub worktree_removed: bool,
}

/// What a landing has done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Landed {
    /// The branch that has the changes now.
    pub into: String,
    /// Its commit now; that of before if there was nothing to land.
    pub commit: String,
    /// Its commit before.
    pub before: String,
    /// The files that changed there, in the order of their paths.
    pub files: Vec<String>,
    /// Lines that were added to text files.
    pub added: u64,
    /// Lines that were removed from text files.
    pub removed: u64,
    /// The ref that keeps the commits of a worktree that was removed.
    pub retired: Option<String>,
    /// Whether the worktree was removed.
    pub worktree_removed: bool,
}
