//! `worker restart`: another runtime for workers.

use clap::Args;
use subagent_protocol::api::RestartWorker;

use crate::command_line::flags::workers::SeveralWorkers;
use crate::command_line::flags::{ConfigFlag, any_value};
use crate::commands::targets::resend_environment::BulkWorkerChange;
use crate::commands::targets::several::ChangeReport;
use crate::context::CliContext;
use crate::failure::Result;
use crate::output::CliOutcome;

/// Give a worker another agent process, on the same session
///
/// Ends the process in order and starts another one. A worker whose agent could
/// not be started is tried again. If a turn is open, the command fails unless
/// --force is given, which cancels the turn.
///
/// The place of a worker on another machine must answer, because two agents
/// could change the same files. --accept-duplicate takes this risk, for a host
/// that does not come back or was set up again. What the old agent did is
/// not known then. It is ended if the place still has it.
#[derive(Debug, Args)]
#[command(mut_args = any_value, after_help = "\
Examples:
  subagent worker restart codex-1
  subagent worker restart codex-1 --force --json")]
pub(crate) struct WorkerRestartArgs {
    /// Also if a turn is open; it is canceled
    #[arg(long)]
    pub(crate) force: bool,
    /// Also if its place does not answer, although its old agent may go on there
    #[arg(long)]
    pub(crate) accept_duplicate: bool,
    #[command(flatten)]
    pub(crate) several: SeveralWorkers,
    #[command(flatten)]
    pub(crate) config: ConfigFlag,
}

const REPORT: ChangeReport = ChangeReport {
    one: "worker.restarted",
    several: "workers.restarted",
    keys: &["workerId", "state", "runtimePid"],
    done: "restarted",
};

pub(super) fn run(args: &WorkerRestartArgs, context: &CliContext) -> Result<CliOutcome> {
    let change = BulkWorkerChange { report: &REPORT, path: "restart", unbounded: true };
    change.of_each((&args.several, &args.config), context, |env, mcp_servers| RestartWorker {
        force: args.force,
        accept_duplicate: args.accept_duplicate,
        env,
        mcp_servers,
    })
}
