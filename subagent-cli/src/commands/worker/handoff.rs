//! `worker handoff`: has the daemon write down what a worker did. Git is asked here, with the caller's PATH.

mod git_status;

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::Value;
use subagent_protocol::api::{CreateHandoff, WorkerView};

use super::r#continue::InspectedWorker;
use crate::client::{ApiRequest, DaemonClient, block_on, segment};
use crate::command_line::flags::path;
use crate::command_line::flags::workers::SeveralWorkers;
use crate::commands::summary;
use crate::commands::targets::named_worker;
use crate::commands::targets::several::{ChangeReport, each};
use crate::context::{CliContext, path_value, present_path};
use crate::failure::{Failure, Result};
use crate::output::CliOutcome;
use crate::tasks::TaskPlacement;

/// Write down what a worker did, for another one to go on
///
/// Makes handoff.md (for the next worker, or a person) and checkpoint.json (for
/// programs) of the worker's messages, plan, tool calls and of git's status of
/// its folder. The worker may be in any state and goes on.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  subagent worker handoff codex-1")]
pub(crate) struct WorkerHandoffArgs {
    /// Below which folder to write [default: the state directory]
    #[arg(long, value_name = "PATH", value_parser = path())]
    pub(crate) handoffs_dir: Option<PathBuf>,
    /// With a section that an agent has written (see `summary`)
    #[arg(long)]
    pub(crate) summary: bool,
    #[command(flatten)]
    pub(crate) several: SeveralWorkers,
}

const REPORT: ChangeReport = ChangeReport {
    one: "worker.handoff.ready",
    several: "workers.handoff.ready",
    keys: &["workerId", "handoffPath", "checkpointPath"],
    done: "written",
};

pub(super) fn run(args: WorkerHandoffArgs, context: &CliContext) -> Result<CliOutcome> {
    let workspace = context.workspace(args.several.cwd.cwd.as_deref())?;
    let handoffs_dir = absolute(present_path(args.handoffs_dir), context)?;
    let addresses = args.several.workers.all();
    let mut client = DaemonClient::new(context, &workspace);
    let items = block_on(each(&mut client, addresses, &REPORT, async |client, address| {
        let worker = segment(named_worker(address, &workspace)?);
        let placement =
            TaskPlacement { cwd: present_path(args.several.cwd.cwd.clone()), ..TaskPlacement::default() };
        let summary = match args.summary {
            true => Some(summary(client, &worker, placement, context).await?),
            false => None,
        };
        let shown: WorkerView = client.ask_for(&ApiRequest::get(format!("/v1/workers/{worker}"))).await?;
        make(client, &worker, &shown.cwd, handoffs_dir.clone(), summary, context).await
    }))?;
    Ok(REPORT.outcome(&client.names(addresses), items))
}

/// What another agent says of the worker, from its last handoff or a new one.
async fn summary(
    client: &mut DaemonClient,
    worker: &str,
    placement: TaskPlacement,
    context: &CliContext,
) -> Result<String> {
    let seen = InspectedWorker::of(client, worker).await?;
    let document = seen.hand_off(client, None, context).await?;
    let text = document.read()?;
    summary::result(&summary::sum_up(&seen, &text, placement, context).await?)
}

/// Has a snapshot made of the worker that works in this folder.
pub(crate) async fn make(
    client: &mut DaemonClient,
    worker: &str,
    cwd: &str,
    handoffs_dir: Option<PathBuf>,
    summary: Option<String>,
    context: &CliContext,
) -> Result<Value> {
    let workspace = git_status::of(Path::new(cwd), &context.env).await;
    let request = CreateHandoff { handoffs_dir, workspace: Some(workspace), summary };
    client.ask(&ApiRequest::change(format!("/v1/workers/{worker}/handoffs"), &request)?).await
}

/// `--handoffs-dir` as the daemon, which runs elsewhere, must hear it.
pub(crate) fn absolute(dir: Option<PathBuf>, context: &CliContext) -> Result<Option<PathBuf>> {
    let Some(dir) = dir else { return Ok(None) };
    let dir = context.env.cwd.join(dir);
    if dir.to_str().is_none() {
        // It becomes part of JSON documents, which are text.
        let message = format!("--handoffs-dir {} is not UTF-8; name another folder", dir.display());
        return Err(Failure::argument(message).with("path", path_value(&dir)));
    }
    Ok(Some(dir))
}
