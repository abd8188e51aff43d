//! `daemon stop`: as `subagentd stop`, for the workspace of `--cwd`.

use crate::args::daemon::DaemonStop;
use crate::context::Context;
use crate::daemon;
use crate::failure::Result;
use crate::output::Outcome;

pub(super) fn run(args: &DaemonStop, context: &Context) -> Result<Outcome> {
    let handle = if args.workers { context.handle() } else { None };
    daemon::stop(args.workers, handle, context.workspace(args.cwd.cwd.as_deref())?.state_dir)
}
