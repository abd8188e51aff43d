//! Flags of `worktree` and `land`, and those that start a worker in a worktree.

use std::path::PathBuf;

use clap::{ArgGroup, Args, Subcommand};
use subagent_protocol::api::WorktreeChoice;

use super::numbers::age;
use super::{ConfigFlag, CwdFlag, JsonFlag, path};

/// `--worktree` and what belongs to it.
#[derive(Debug, Default, Args)]
pub struct WorktreeFlags {
    /// Work in a git worktree of its own, on this branch
    /// [default: subagent/NAME]
    #[arg(long, value_name = "BRANCH", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    pub worktree: Option<String>,
    /// Begin the branch of the worktree at this commit [default: HEAD]
    #[arg(long, value_name = "REF")]
    pub base: Option<String>,
    /// Take uncommitted and untracked files along into the worktree
    #[arg(long)]
    pub with_changes: bool,
}

impl WorktreeFlags {
    /// The worktree that was asked for.
    #[must_use]
    pub fn choice(self) -> Option<WorktreeChoice> {
        let Self { worktree, base, with_changes } = self;
        let wanted = worktree.is_some() || base.is_some() || with_changes;
        let branch = worktree.filter(|branch| !branch.trim().is_empty());
        wanted.then_some(WorktreeChoice { branch, base, with_changes })
    }
}

/// `subagent worktree ...`
#[allow(missing_docs)]
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub enum WorktreeCommand {
    List(WorktreeList),
    Show(WorktreeShow),
    Diff(super::look::Diff),
    Setup(WorktreeSetup),
    Remove(WorktreeRemove),
    Discard(WorktreeDiscard),
    Land(Box<Land>),
    Prune(WorktreePrune),
}

impl WorktreeCommand {
    /// Whether it was given `--json`.
    #[must_use]
    pub const fn json(&self) -> bool {
        match self {
            Self::List(args) => args.json.json,
            Self::Show(args) => args.one.json.json,
            Self::Diff(args) => args.json.json,
            Self::Setup(args) => args.one.json.json,
            Self::Remove(args) => args.one.json.json,
            Self::Discard(args) => args.one.json.json,
            Self::Land(args) => args.json.json,
            Self::Prune(args) => args.json.json,
        }
    }
}

/// The worktree that a command is about, and what all such commands take.
#[derive(Debug, Args)]
pub struct OneWorktree {
    /// The worktree: its name, or its worker
    #[arg(value_name = "WORKTREE")]
    pub worktree: String,
    /// `--cwd`, a folder of the workspace.
    #[command(flatten)]
    pub cwd: CwdFlag,
    /// Which form of output.
    #[command(flatten)]
    pub json: JsonFlag,
}

/// List the worktrees of workers, the newest first
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent worktree list
  subagent worktree list --json")]
pub struct WorktreeList {
    /// `--cwd`, a folder of the workspace.
    #[command(flatten)]
    pub cwd: CwdFlag,
    /// Which form of output.
    #[command(flatten)]
    pub json: JsonFlag,
}

/// Show a worktree: where it is, and what is in it
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  subagent worktree show codex-1")]
pub struct WorktreeShow {
    /// The worktree, by its name or its worker, and its workspace.
    #[command(flatten)]
    pub one: OneWorktree,
}

/// Copy and run again what makes a worktree usable
///
/// These are `worktrees.copy` and `worktrees.setup` of the config, as they were when the worker was started.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  subagent worktree setup codex-1")]
pub struct WorktreeSetup {
    /// The worktree, by its name or its worker, and its workspace.
    #[command(flatten)]
    pub one: OneWorktree,
}

/// Remove a worktree in which nothing would be lost
///
/// It is refused while there are changes that are not committed, new files, or commits that no other branch has.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  subagent worktree remove codex-1")]
pub struct WorktreeRemove {
    /// The worktree, by its name or its worker, and its workspace.
    #[command(flatten)]
    pub one: OneWorktree,
}

/// Remove a worktree; a ref keeps all that was in it
///
/// The command prints the ref, below `refs/subagent/retired/`. Commits, the index and uncommitted and untracked files are
/// in it: `git diff REF^ REF` shows the files, and `git worktree add PATH REF` gets them back.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  subagent worktree discard codex-1")]
pub struct WorktreeDiscard {
    /// The worktree, by its name or its worker, and its workspace.
    #[command(flatten)]
    pub one: OneWorktree,
}

/// Remove the worktrees of stopped workers that have no work in them
///
/// With --retired, also delete the refs of worktrees that were discarded or landed longer ago than that: their commits are
/// gone then. The same is true for copies that were discarded.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent worktree prune
  subagent worktree prune --retired 30d")]
pub struct WorktreePrune {
    /// Delete refs of retired worktrees, and discarded copies, that are older than this, as 30d
    #[arg(long, value_name = "TIME", value_parser = age)]
    pub retired: Option<u64>,
    /// `--cwd`, a folder of the workspace.
    #[command(flatten)]
    pub cwd: CwdFlag,
    /// Which form of output.
    #[command(flatten)]
    pub json: JsonFlag,
}

/// Bring the changes of a worktree to the branch that it came from
///
/// The worker's changes become one commit on that branch, and in the files of your work tree. What it has not committed is
/// committed first. The target is not changed if it has conflicts, or changes of yours in the same files. The worktree of
/// a stopped worker is removed afterwards; a worker that lives goes on from there. Several worktrees land in turn; the
/// first that cannot ends it.
#[derive(Debug, Args)]
#[command(
    group(ArgGroup::new("how").args(["squash", "merge", "rebase", "patch"])),
    after_help = "\
Examples:
  subagent land codex-1
  subagent land codex-1 --into main --message 'Fix the login'
  subagent land auth api docs --check 'cargo test'
  subagent land codex-1 --patch fix.patch"
)]
pub struct Land {
    /// The worktrees: their names, or their workers
    #[arg(value_name = "WORKTREE", required = true)]
    pub worktrees: Vec<String>,
    /// The branch [default: the one that the worktree came from]
    #[arg(long, value_name = "BRANCH")]
    pub into: Option<String>,
    /// One commit with all changes (the default)
    #[arg(long)]
    pub squash: bool,
    /// A merge commit
    #[arg(long)]
    pub merge: bool,
    /// The worker's commits again, on top of the branch
    #[arg(long)]
    pub rebase: bool,
    /// Write the changes to a file, and change nothing else
    #[arg(long, value_name = "FILE", value_parser = path(), conflicts_with_all = ["into", "message", "check", "fix", "keep"])]
    pub patch: Option<PathBuf>,
    /// The message of the commit [default: made of the worker's commits]
    #[arg(long, value_name = "TEXT")]
    pub message: Option<String>,
    /// A shell command that must succeed with the merged files; can be repeated
    /// [default: the config's]
    #[arg(long, value_name = "COMMAND")]
    pub check: Vec<String>,
    /// On a conflict or a failed check, send it to the worker, wait, and try again
    #[arg(long)]
    pub fix: bool,
    /// Keep the worktree as it is
    #[arg(long)]
    pub keep: bool,
    /// `--cwd`, a folder of the workspace.
    #[command(flatten)]
    pub cwd: CwdFlag,
    /// `--config`, the path of the config file.
    #[command(flatten)]
    pub config: ConfigFlag,
    /// Which form of output.
    #[command(flatten)]
    pub json: JsonFlag,
}
