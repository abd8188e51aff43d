//! Flags of `worker rm` and `prune`.

use clap::Args;

use super::workers::SeveralWorkers;
use super::{CwdFlag, JsonFlag};

/// Remove a stopped worker with everything that is stored of it
///
/// Its events, its log and its handoffs in the state dir are deleted, for good.
/// A worker that is not stopped is refused unless --force is given.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent worker rm codex-1
  subagent worker rm codex-1 codex-2 --force --json")]
pub struct WorkerRm {
    /// Stop the worker first
    #[arg(long)]
    pub force: bool,
    /// The addresses of the workers, and their workspace.
    #[command(flatten)]
    pub several: SeveralWorkers,
}

/// Remove workers that were stopped long ago, and old files
///
/// That is: workers that have been stopped for longer than --older-than, keys of requests that are as old (but never
/// younger than a day), older files of unknown workers (but no journals), and state that a `restore` replaced before
/// then. Restored state counts as new. The daemon does the same by itself after 30 days.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent prune --dry-run
  subagent prune --older-than 12h --json")]
pub struct Prune {
    /// How old, as 30d, 12h, 90m or 45s
    #[arg(long, value_name = "AGE", default_value = "30d", value_parser = super::numbers::age)]
    pub older_than: u64,
    /// Only show what would be removed
    #[arg(long)]
    pub dry_run: bool,
    /// `--cwd`, a folder of the workspace.
    #[command(flatten)]
    pub cwd: CwdFlag,
    /// Which form of output.
    #[command(flatten)]
    pub json: JsonFlag,
}
