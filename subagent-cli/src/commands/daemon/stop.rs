//! `daemon stop`: as `subagentd stop`, for the workspace of `--cwd`.

use crate::args::daemon::DaemonStop;
use crate::context::Context;
use crate::daemon;
use crate::failure::Result;
use crate::output::Outcome;

pub(super) fn run(args: &DaemonStop, context: &Context) -> Result<Outcome> {
    daemon::stop(args.workers, context.workspace(args.cwd.cwd.as_deref())?.state_dir)
}
