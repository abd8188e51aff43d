//! `daemon stop`: as `subagentd stop`, for the workspace of `--cwd`.

use crate::args::daemon::DaemonStop;
use crate::context::CliContext;
use crate::daemon;
use crate::failure::Result;
use crate::output::CliOutcome;

pub(crate) fn run(args: &DaemonStop, context: &CliContext) -> Result<CliOutcome> {
    let handle = if args.workers { context.handle() } else { None };
    daemon::stop(args.workers, handle, context.workspace(args.cwd.cwd.as_deref())?.state_dir)
}
