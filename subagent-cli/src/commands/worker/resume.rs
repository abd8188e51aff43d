//! `worker resume`: parked workers and paused queues go on.

use clap::Args;
use subagent_protocol::api::GoOn;

use crate::command_line::flags::workers::SeveralWorkers;
use crate::command_line::flags::{ConfigFlag, any_value};
use crate::commands::targets::resend_environment::BulkWorkerChange;
use crate::commands::targets::several::ChangeReport;
use crate::context::CliContext;
use crate::failure::Result;
use crate::output::CliOutcome;

/// End the parking of a worker, so that its queue goes on now
///
/// A worker whose turn fails for a rate limit of the model's provider is parked: messages wait until the time of reset.
/// A paused queue goes on as well. A worker that is neither parked nor paused is left as it is.
#[derive(Debug, Args)]
#[command(mut_args = any_value, after_help = "\
Examples:
  subagent worker resume codex-1
  subagent worker resume codex-1 codex-2 --json")]
pub(crate) struct WorkerResumeArgs {
    #[command(flatten)]
    pub(crate) several: SeveralWorkers,
    #[command(flatten)]
    pub(crate) config: ConfigFlag,
}

const REPORT: ChangeReport = ChangeReport {
    one: "worker.resumed",
    several: "workers.resumed",
    keys: &["workerId", "state", "unparked", "resumed", "turnId"],
    done: "resumed",
};

pub(super) fn run(args: &WorkerResumeArgs, context: &CliContext) -> Result<CliOutcome> {
    let change = BulkWorkerChange { report: &REPORT, path: "queue/resume", unbounded: false };
    change.of_each((&args.several, &args.config), context, |env, mcp_servers| GoOn { env, mcp_servers })
}
