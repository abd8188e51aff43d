//! `worker stop`: ends workers and every process of them. `--force` changes nothing: a worker can be stopped in every
//! state.

use clap::{ArgGroup, Args};
use serde_json::{Value, json};
use subagent_config::Workspace;
use subagent_protocol::api::StopWorker;

use crate::client::{ApiRequest, DaemonClient, block_on, segment};
use crate::command_line::flags::workers::Addresses;
use crate::command_line::flags::{CwdFlag, JsonFlag, SelectorFlag};
use crate::commands::targets::selected::WorkerSelector;
use crate::commands::targets::several::{ChangeReport, each};
use crate::commands::targets::{has_state, named_worker};
use crate::context::CliContext;
use crate::failure::Result;
use crate::output::{CliOutcome, text};

/// Stop a worker and every process of it
///
/// An open turn is canceled first. Success means that no process of the worker is left. A worker that is stopped
/// already stays as it is.
#[derive(Debug, Args)]
#[command(
    override_usage = "subagent worker stop [OPTIONS] <WORKER>...",
    after_help = "\
Examples:
  subagent worker stop codex-1
  subagent worker stop -l job=review
  subagent worker stop trainer --without-host"
)]
#[command(group(ArgGroup::new("which").required(true).args(["workers", "worker_id", "selector"])))]
pub(crate) struct WorkerStopArgs {
    #[command(flatten)]
    pub(crate) workers: Addresses,
    #[command(flatten)]
    pub(crate) selector: SelectorFlag,
    /// Taken for older scripts; a worker can be stopped in every state
    #[arg(long)]
    pub(crate) force: bool,
    /// Give up a worker whose place does not answer
    ///
    /// For a host, pod or job that does not come back. The place gets some seconds to answer. Without an answer, what
    /// runs there may go on.
    #[arg(long)]
    pub(crate) without_host: bool,
    #[command(flatten)]
    pub(crate) cwd: CwdFlag,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

const REPORT: ChangeReport = ChangeReport {
    one: "worker.stopped",
    several: "workers.stopped",
    keys: &["workerId", "state"],
    done: "stopped",
};

pub(crate) fn run(args: &WorkerStopArgs, context: &CliContext) -> Result<CliOutcome> {
    let workspace = context.workspace(args.cwd.cwd.as_deref())?;
    let request = StopWorker { without_host: args.without_host };
    if let Some(selector) = &args.selector.selector {
        let choice = WorkerSelector { controller_id: None, selector: Some(selector.clone()) };
        return all(choice, request, &workspace, context);
    }
    let addresses = args.workers.all();
    let mut client = DaemonClient::new(context, &workspace);
    let items = block_on(each(&mut client, addresses, &REPORT, async |client, address| {
        stop_with(client, named_worker(address, &workspace)?, request).await
    }))?;
    Ok(REPORT.outcome(&client.names(addresses), items))
}

/// Stops a worker; gives the data of `worker.stopped`.
pub(crate) async fn stop(client: &mut DaemonClient, worker: &str) -> Result<Value> {
    stop_with(client, worker, StopWorker::default()).await
}

async fn stop_with(client: &mut DaemonClient, worker: &str, request: StopWorker) -> Result<Value> {
    client.ask(&ApiRequest::change(format!("/v1/workers/{}/stop", segment(worker)), &request)?).await
}

/// Stops the workers that have some tags.
fn all(
    choice: WorkerSelector,
    request: StopWorker,
    workspace: &Workspace,
    context: &CliContext,
) -> Result<CliOutcome> {
    choice.ask()?;
    if !has_state(workspace) {
        return Err(choice.none());
    }
    let mut client = DaemonClient::new(context, workspace);
    let (items, names) = block_on(async {
        let chosen = choice.workers(&mut client).await?;
        let (ids, names): (Vec<String>, Vec<String>) =
            chosen.into_iter().map(|worker| (worker.worker_id, worker.name)).unzip();
        Ok((
            each(&mut client, &ids, &REPORT, async |client, worker| stop_with(client, worker, request).await)
                .await?,
            names,
        ))
    })?;
    let data = json!({"count": items.len(), "items": items, "selector": choice.selector});
    let shown = text::rows(&data, REPORT.keys, "");
    Ok(CliOutcome::report(REPORT.several, data, shown).of_workers(&names))
}
