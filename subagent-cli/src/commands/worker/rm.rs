//! `worker rm`: removes workers with everything that is stored of them.

use clap::Args;
use subagent_protocol::api::RemoveWorker;

use crate::client::{ApiRequest, DaemonClient, block_on, segment};
use crate::command_line::flags::workers::SeveralWorkers;
use crate::commands::targets::named_worker;
use crate::commands::targets::several::{ChangeReport, each};
use crate::context::CliContext;
use crate::failure::Result;
use crate::output::CliOutcome;

/// Remove a stopped worker with everything that is stored of it
///
/// Its events, its log and its handoffs in the state dir are deleted, for good.
/// A worker that is not stopped is refused unless --force is given.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent worker rm codex-1
  subagent worker rm codex-1 codex-2 --force --json")]
pub(crate) struct WorkerRmArgs {
    /// Stop the worker first
    #[arg(long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) several: SeveralWorkers,
}

const REPORT: ChangeReport = ChangeReport {
    one: "worker.removed",
    several: "workers.removed",
    keys: &["workerId", "removedAt"],
    done: "removed",
};

pub(crate) fn run(args: &WorkerRmArgs, context: &CliContext) -> Result<CliOutcome> {
    let workspace = context.workspace(args.several.cwd.cwd.as_deref())?;
    let addresses = args.several.workers.all();
    let mut client = DaemonClient::new(context, &workspace);
    let items = block_on(each(&mut client, addresses, &REPORT, async |client, address| {
        let path = format!("/v1/workers/{}/remove", segment(named_worker(address, &workspace)?));
        client.ask(&ApiRequest::change(path, &RemoveWorker { force: args.force })?).await
    }))?;
    Ok(REPORT.outcome(&client.names(addresses), items))
}
