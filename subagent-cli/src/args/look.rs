//! Flags of `show` and `diff`.

use clap::Args;

use super::{CwdFlag, JsonFlag};

/// Show what a worker does, asks, has said and has changed
///
/// Without WORKER: the only worker that is not stopped.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent show
  subagent show w_0123456789 --json
  subagent show auth api")]
pub struct Show {
    /// The workers [default: the only one that is not stopped]
    #[arg(value_name = "WORKER")]
    pub workers: Vec<String>,
    /// `--cwd`, a folder of the workspace.
    #[command(flatten)]
    pub cwd: CwdFlag,
    /// Which form of output.
    #[command(flatten)]
    pub json: JsonFlag,
}

/// Show what has changed in a worker's folder since its first turn
///
/// In a git repository: all changes of the work tree since the worker's first
/// turn began. What was changed before that does not count. Elsewhere: the
/// changes that its agent has reported.
///
/// With several workers: the files that more than one of them has changed.
///
/// At a terminal the output goes through $GIT_PAGER, $PAGER or less.
#[derive(Debug, Args)]
#[command(
    verbatim_doc_comment,
    after_help = "\
Examples:
  subagent diff
  subagent diff w_0123456789 --stat
  subagent diff w_0123456789 --name-only
  subagent diff auth api"
)]
pub struct Diff {
    /// The workers [default: the only one that is not stopped]
    #[arg(value_name = "WORKER")]
    pub workers: Vec<String>,
    /// Show the number of changed lines for each file
    #[arg(long, conflicts_with = "name_only")]
    pub stat: bool,
    /// Show the names of the files
    #[arg(long)]
    pub name_only: bool,
    /// `--cwd`, a folder of the workspace.
    #[command(flatten)]
    pub cwd: CwdFlag,
    /// Which form of output.
    #[command(flatten)]
    pub json: JsonFlag,
}
