//! `daemon stop`: as `subagentd stop`, for the workspace of `--cwd`.

use clap::Args;

use crate::command_line::flags::{CwdFlag, JsonFlag};
use crate::context::CliContext;
use crate::daemon;
use crate::failure::Result;
use crate::output::CliOutcome;

/// Stop the daemon; its workers go on unless --workers is given
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent daemon stop
  subagent daemon stop --workers --json")]
pub(crate) struct DaemonStopArgs {
    /// Also stop all workers
    #[arg(long)]
    pub(crate) workers: bool,
    #[command(flatten)]
    pub(crate) cwd: CwdFlag,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

pub(super) fn run(args: &DaemonStopArgs, context: &CliContext) -> Result<CliOutcome> {
    let handle = if args.workers { context.handle() } else { None };
    daemon::stop(args.workers, handle, context.workspace(args.cwd.cwd.as_deref())?.state_dir)
}
