//! Git worktrees of workers, and the operations of `subagent-runtime worktree`.

// That program reads one [`Operation`] from standard input and writes one [`WorktreeResult`] to
// standard output, as one line of JSON each. An operation that was killed can be repeated: it is
// then completed or undone.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::Error;
use crate::placement::Placement;
use crate::sandbox::{FileSystem, Sandbox};
use crate::time::Timestamp;

/// The folder of branches without a name from the user: `subagent/NAME`.
pub const BRANCH_PREFIX: &str = "subagent/";
/// The folder of the refs `refs/subagent/retired/NAME/TIME`, which keep the work of
/// discarded and landed worktrees.
pub const RETIRED_REFS: &str = "refs/subagent/retired/";

/// The folder of the refs `refs/subagent/exchange/NAME` on the machine of a placed worker: the state
/// that was sent there, or that is fetched from there.
pub const EXCHANGE_REFS: &str = "refs/subagent/exchange/";

/// Maximum number of file names in an error, an event or the result of a merge.
pub const MAX_NAMES: usize = 100;
/// Maximum number of file names in a message.
const MAX_NAMES_IN_MESSAGE: usize = 10;

/// Returns at most [`MAX_NAMES`] of the names, and the number of the others.
#[must_use]
pub fn bounded(mut names: Vec<String>) -> (Vec<String>, u64) {
    let more = names.len().saturating_sub(MAX_NAMES);
    names.truncate(MAX_NAMES);
    (names, more as u64)
}

/// Whether a number is left out of JSON.
#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
pub(crate) const fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Returns the first names for a message, and how many follow.
#[must_use]
pub fn in_message(names: &[String]) -> String {
    let shown = names.len().min(MAX_NAMES_IN_MESSAGE);
    let more = names.len() - shown;
    let shown = names[..shown].join(", ");
    if more == 0 { shown } else { format!("{shown} and {more} more") }
}

/// A worktree: everything required to create, inspect, land or remove it. All paths are absolute.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Worktree {
    /// Name, unique in its repository, and one component of a path.
    pub name: String,
    /// The common git directory of the repository (`git rev-parse --git-common-dir`).
    pub repository: PathBuf,
    /// The top folder of the work tree that it was created from.
    pub main: PathBuf,
    /// Its own top folder.
    pub path: PathBuf,
    /// Its branch, without `refs/heads/`.
    pub branch: String,
    /// The first commit of its branch.
    pub base: String,
    /// The branch of the work tree that it was created from, if one was checked
    /// out: its default target.
    pub source_branch: Option<String>,
    /// Whether `base` is a commit of uncommitted changes in the main work tree,
    /// which a landing omits.
    pub with_changes: bool,
    /// Set if it is a copy of the folder `main`, without git. `repository` is then the folder of all
    /// copies of `main`. It has no branch and no commits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copied: Option<Copied>,
    /// Whether git had no name and email address for commits when it was planned. Landing it
    /// needs them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub identity_missing: bool,
    /// The sandbox of its agent. Such a worktree is a separate repository that borrows the
    /// objects of `repository`. Its agent may have changed anything in it, so git runs there
    /// only inside the sandbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<Box<Sandbox>>,
    /// The worktree on another machine in which its worker works. This one is then a mirror, which
    /// each operation brings up to date first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placed: Option<Box<PlacedWorktree>>,
}

/// A worktree on another machine. Its paths are absolute, or begin with `~/` of the user there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlacedWorktree {
    /// The machine, with the program there.
    pub placement: Placement,
    /// Its top folder on that machine.
    pub path: PathBuf,
    /// The git directory of the bare repository that has its commits: `.git` beside the worktree.
    pub repository: PathBuf,
}

/// What a copy of a folder contains.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Copied {
    /// Maximum size in bytes.
    pub limit: u64,
    /// Absolute paths that it leaves out.
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<String>))]
    pub without: Vec<PathBuf>,
}

/// When a worker gets a copy of its folder instead of a git worktree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CopyRequest {
    /// Also in a git repository. Otherwise only if git cannot make a worktree.
    pub always: bool,
    /// See [`Copied::limit`] for its meaning.
    pub limit: u64,
    /// See [`Copied::without`] for its meaning.
    pub without: Vec<PathBuf>,
}

impl Worktree {
    /// Returns the same worktree as its own repository, as seen by a process inside the sandbox.
    #[must_use]
    pub fn from_inside(&self) -> Self {
        Self { repository: self.path.join(".git"), sandbox: None, ..self.clone() }
    }

    /// Returns the same worktree as seen by a process on the machine where its worker works.
    #[must_use]
    pub fn there(&self, placed: &PlacedWorktree) -> Self {
        Self {
            repository: placed.repository.clone(),
            main: placed.repository.clone(),
            path: placed.path.clone(),
            // That commit is kept here.
            with_changes: false,
            placed: None,
            ..self.clone()
        }
    }

    /// Whether it is a copy of the workspace, whose changes are taken file by file.
    #[must_use]
    pub fn is_isolated(&self) -> bool {
        self.sandbox.as_ref().is_some_and(|sandbox| sandbox.spec.filesystem == FileSystem::Isolated)
    }

    /// Whether it is in the form of [`Self::from_inside`].
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
    /// Shell commands, run in order with `sh -c` in the worktree.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<String>,
    /// Globs of files in the main work tree, relative to its top, that are
    /// copied. Existing files stay.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub copy: Vec<String>,
}

/// One operation on worktrees.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", tag = "operation")]
pub enum Operation {
    /// Determines what a new worktree would be created from. Changes nothing,
    /// except objects for `with_changes`.
    Plan {
        /// Intended working folder of the worker.
        cwd: PathBuf,
        /// The folder of all worktrees.
        root: PathBuf,
        /// The branch, if the user names it. It must not exist.
        branch: Option<String>,
        /// The first commit; `HEAD` if absent.
        base: Option<String>,
        /// Whether to include uncommitted and untracked files that are not ignored, as a commit
        /// on top of `HEAD`.
        with_changes: bool,
        /// When a copy is planned instead; absent: never.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        copy: Option<CopyRequest>,
    },
    /// Creates the worktree with its branch and runs its setup. May be repeated.
    Create {
        /// The worktree to create.
        worktree: Worktree,
        /// How to make it usable.
        setup: Setup,
    },
    /// Runs the setup again.
    Setup {
        /// The worktree to set up.
        worktree: Worktree,
        /// How to make it usable.
        setup: Setup,
    },
    /// Inspects its content. Changes nothing.
    Look {
        /// The worktree to inspect.
        worktree: Worktree,
    },
    /// Removes it with its branch if nothing would be lost; otherwise it stays unchanged.
    Remove {
        /// The worktree to remove.
        worktree: Worktree,
    },
    /// Keeps its whole content under a ref of [`RETIRED_REFS`], and removes it with its branch.
    Discard {
        /// The worktree to discard.
        worktree: Worktree,
        /// Time for the last part of the ref.
        time: Timestamp,
    },
    /// The same of the mirror of a worktree whose machine is lost. That machine is not asked.
    GiveUp {
        /// The worktree whose mirror is discarded.
        worktree: Worktree,
        /// Time for the last part of the ref.
        time: Timestamp,
    },
    /// Applies its changes to another branch of the repository.
    Land {
        /// The worktree to land.
        worktree: Worktree,
        /// How and where to land.
        landing: Box<Landing>,
    },
    /// Applies its changes to the files of the main work tree, one by one and without a commit. A
    /// file that has changed on both sides stays unchanged.
    Merge {
        /// The worktree to merge.
        worktree: Worktree,
        /// The landing; only its `id`, `trailer` and `then` are used.
        landing: Box<Landing>,
    },
    /// On the machine of a placed worker: puts the state of the worktree under a ref of
    /// [`EXCHANGE_REFS`]. Creates the repository if there is none.
    Pack {
        /// The worktree on that machine.
        worktree: Worktree,
        /// Whether it may not exist yet.
        is_new: bool,
    },
    /// On the machine of a placed worker: gives the worktree the state under its ref of
    /// [`EXCHANGE_REFS`]. Creates the worktree if there is none. May be repeated.
    Unpack {
        /// The worktree on that machine.
        worktree: Worktree,
        /// The commit of the new state.
        state: String,
        /// The state that it must still have; absent for a new worktree.
        before: Option<String>,
        /// How to make a new worktree usable.
        setup: Setup,
    },
    /// On the machine of a placed worker: removes the worktree, whose state is known elsewhere.
    Forget {
        /// The worktree on that machine.
        worktree: Worktree,
        /// The commit of the known state.
        state: String,
        /// What to do if it has more than that: keep it under a ref of [`RETIRED_REFS`] with this time;
        /// absent: it stays unchanged.
        time: Option<Timestamp>,
    },
    /// Completes a landing that was killed after the target branch was moved. Changes nothing
    /// if there was none.
    Recover {
        /// The common git directory of the repository.
        repository: PathBuf,
    },
    /// Lists the refs of [`RETIRED_REFS`], and deletes those that are older than a time.
    Prune {
        /// The common git directory of the repository.
        repository: PathBuf,
        /// Refs from before this time are deleted; absent: none.
        before: Option<Timestamp>,
    },
    /// Lists the discarded copies of a folder, and deletes those that are older than a time.
    PruneCopies {
        /// The folder of all copies of a folder.
        folder: PathBuf,
        /// Copies discarded before this time are deleted; absent: none.
        before: Option<Timestamp>,
    },
}

/// How a worktree is landed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Landing {
    /// Time of the first request, in milliseconds since 1970. Identifies the landing: a repetition
    /// with the same id returns the first result. Not a [`Timestamp`], whose JSON has whole
    /// seconds: two landings fit into one second.
    pub id: i64,
    /// The target branch; if absent, the one that the worktree was created from.
    pub into: Option<String>,
    /// How the commits are made.
    pub how: LandingMode,
    /// The message of the commit; if absent, made from the worktree's commits.
    pub message: Option<String>,
    /// The trailer of the new commits, such as `Subagent: auth, codex, w_0123456789ab`.
    pub trailer: String,
    /// Shell commands that must succeed with the merged files before the branch moves.
    pub checks: Vec<String>,
    /// Globs of branches that only an explicit `into` can change.
    pub protected: Vec<String>,
    /// Folders, at any depth, whose files a merge leaves out.
    #[serde(default)]
    pub withheld: Vec<String>,
    /// What happens to the worktree afterwards.
    pub then: AfterLanding,
}

impl Landing {
    /// Returns the time of the first request: the last part of the ref that
    /// keeps the worktree's commits.
    #[must_use]
    pub const fn time(&self) -> Timestamp {
        Timestamp(self.id)
    }
}

/// How the commits of a landing are made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub enum LandingMode {
    /// One commit with all changes.
    #[default]
    Squash,
    /// One merge commit with two parents.
    Merge,
    /// The worktree's commits, repeated on top of the target.
    Rebase,
}

/// What happens to a worktree after its landing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum AfterLanding {
    /// It is removed with its branch. A ref of [`RETIRED_REFS`] keeps its commits.
    Remove,
    /// It stays as it is.
    Keep,
    /// Its branch moves to the landed commit, and its worker continues.
    GoOn,
}

/// The result of an operation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum WorktreeResult {
    /// The result of [`Operation::Plan`], without changes.
    Planned(Plan),
    /// The result of [`Operation::Create`] and [`Operation::Setup`].
    Ready,
    /// The result of [`Operation::Look`], and of [`Operation::Remove`] for a kept worktree.
    Found(Contents),
    /// The result of [`Operation::Remove`] and [`Operation::Forget`] for a removed worktree.
    Removed,
    /// The result of [`Operation::Discard`]: the ref or folder that keeps the content; `None` if it
    /// was clean or gone.
    Discarded(Option<String>),
    /// The result of [`Operation::Land`], with the commits.
    Landed(Landed),
    /// The result of [`Operation::Merge`], with the files.
    Merged(Merged),
    /// The result of [`Operation::Pack`] and [`Operation::Unpack`]; `None` without a worktree.
    Packed(Option<Packed>),
    /// The result of [`Operation::Recover`]: the branch whose landing was completed.
    Recovered(Option<String>),
    /// The result of [`Operation::Prune`] with all refs, and of [`Operation::PruneCopies`] with all
    /// paths.
    Pruned {
        /// The refs or copies that are kept.
        kept: Vec<String>,
        /// The refs or copies that were deleted.
        deleted: Vec<String>,
    },
    /// The operation failed; changes are only those in the error.
    Failed(Error),
}

/// A worktree on the machine of a placed worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Packed {
    /// The commit of its state: files, index, `HEAD` and branch. An unchanged worktree has an unchanged
    /// commit.
    pub state: String,
    /// Number of ignored files newer than its setup, and of repositories below it. They stay there.
    pub stays: u64,
    /// Whether its setup has ended.
    pub is_ready: bool,
}

/// The sources of a new worktree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    /// See [`Worktree::repository`] for its meaning.
    pub repository: PathBuf,
    /// See [`Worktree::main`] for its meaning.
    pub main: PathBuf,
    /// The folder for the worktrees of this repository: `root/REPOSITORY-HASH`.
    pub folder: PathBuf,
    /// The path from `main` to the worker's folder; empty at the top.
    pub prefix: PathBuf,
    /// See [`Worktree::base`] for its meaning.
    pub base: String,
    /// See [`Worktree::source_branch`] for its meaning.
    pub source_branch: Option<String>,
    /// See [`Worktree::with_changes`] for its meaning.
    pub with_changes: bool,
    /// See [`Worktree::copied`] for its meaning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copied: Option<Copied>,
    /// See [`Worktree::identity_missing`] for its meaning.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub identity_missing: bool,
    /// Names in use: entries of `folder`, and branches below [`BRANCH_PREFIX`].
    pub taken: Vec<String>,
}

/// The content of a worktree beyond its base.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Contents {
    /// Whether its folder exists.
    pub exists: bool,
    /// Number of files that differ from the base, including uncommitted and untracked ones.
    pub files: u64,
    /// Number of lines added to text files.
    pub added: u64,
    /// Number of lines removed from text files.
    pub removed: u64,
    /// Number of files with uncommitted changes, and of untracked files that are not ignored.
    pub uncommitted: u64,
    /// Number of commits that no other ref has.
    pub commits: u64,
    /// Its unfinished operation: `merge`, `rebase`, `cherry-pick`, `revert` or `bisect`.
    pub under_way: Option<String>,
    /// Number of ignored files newer than its setup.
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

/// The result of a merge, file by file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Merged {
    /// The files that are now as in the worktree, in the main work tree.
    pub files: Vec<String>,
    /// Files that changed on both sides and stay unchanged.
    pub refused: Vec<String>,
    /// The new base of the worktree's changes, which includes the merged files.
    pub base: String,
    /// The ref that keeps the commits of a removed worktree.
    pub retired: Option<String>,
    /// Whether the worktree was removed.
    pub worktree_removed: bool,
}

/// The result of a landing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Landed {
    /// The branch that now has the changes.
    pub into: String,
    /// Its present commit, which is the former one if there was nothing to land.
    pub commit: String,
    /// Its commit before the landing.
    pub before: String,
    /// The files that changed there, sorted by path.
    pub files: Vec<String>,
    /// Number of lines added to text files.
    pub added: u64,
    /// Number of lines removed from text files.
    pub removed: u64,
    /// The ref that keeps the commits of a removed worktree.
    pub retired: Option<String>,
    /// Whether the worktree was removed.
    pub worktree_removed: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_names_say_how_many_more_there_are() {
        let names = |count: usize| (0..count).map(|number| number.to_string()).collect::<Vec<_>>();
        assert_eq!(bounded(names(MAX_NAMES)), (names(MAX_NAMES), 0));
        assert_eq!(bounded(names(MAX_NAMES + 5)), (names(MAX_NAMES), 5));
        assert_eq!(in_message(&names(2)), "0, 1");
        assert_eq!(in_message(&names(12)), "0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 2 more");
    }
}
