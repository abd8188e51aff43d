//! `worker handoff`: has the daemon write down what a worker did. Git is asked here, with the caller's PATH.

use std::path::PathBuf;

use serde_json::Value;
use subagent_protocol::api::CreateHandoff;

use super::several::{Report, each};
use super::worker_continue::Seen;
use super::{git_status, named_worker, summary};
use crate::args::handoff::WorkerHandoff;
use crate::client::{Ask, Client, block_on, segment};
use crate::context::{Context, path_value, present_path};
use crate::failure::{Failure, Result};
use crate::output::Outcome;
use crate::tasks::Wish;

const REPORT: Report = Report {
    one: "worker.handoff.ready",
    several: "workers.handoff.ready",
    keys: &["workerId", "handoffPath", "checkpointPath"],
    done: "written",
};

pub(super) fn run(args: WorkerHandoff, context: &Context) -> Result<Outcome> {
    let workspace = context.workspace(args.several.cwd.cwd.as_deref())?;
    let handoffs_dir = absolute(present_path(args.handoffs_dir), context)?;
    let addresses = args.several.workers.all();
    let mut client = Client::new(context, &workspace);
    let items = block_on(each(&mut client, addresses, &REPORT, async |client, address| {
        let worker = segment(named_worker(address, &workspace)?);
        let wish = Wish { cwd: present_path(args.several.cwd.cwd.clone()), ..Wish::default() };
        let summary = match args.summary {
            true => Some(summary(client, &worker, wish, context).await?),
            false => None,
        };
        let shown = client.ask(&Ask::get(format!("/v1/workers/{worker}"))).await?;
        make(client, &worker, &shown, handoffs_dir.clone(), summary, context).await
    }))?;
    Ok(REPORT.outcome(addresses, items))
}

/// What another agent says of the worker, from its last handoff or a new one.
async fn summary(client: &mut Client, worker: &str, wish: Wish, context: &Context) -> Result<String> {
    let seen = Seen::of(client, worker).await?;
    let document = seen.hand_off(client, None, context).await?;
    let text = document.read()?;
    summary::result(&summary::sum_up(&seen, &text, wish, context).await?)
}

/// Has a snapshot made of the worker of which this is shown.
pub(super) async fn make(
    client: &mut Client,
    worker: &str,
    shown: &Value,
    handoffs_dir: Option<PathBuf>,
    summary: Option<String>,
    context: &Context,
) -> Result<Value> {
    let cwd = PathBuf::from(shown["cwd"].as_str().unwrap_or_default());
    let workspace = git_status::of(&cwd, &context.env).await;
    let request = CreateHandoff { handoffs_dir, workspace: Some(workspace), summary };
    client.ask(&Ask::change(format!("/v1/workers/{worker}/handoffs"), &request)?).await
}

/// `--handoffs-dir` as the daemon, which runs elsewhere, must hear it.
pub(super) fn absolute(dir: Option<PathBuf>, context: &Context) -> Result<Option<PathBuf>> {
    let Some(dir) = dir else { return Ok(None) };
    let dir = context.env.cwd.join(dir);
    if dir.to_str().is_none() {
        // It becomes part of JSON documents, which are text.
        let message = format!("--handoffs-dir {} is not UTF-8; name another folder", dir.display());
        return Err(Failure::argument(message).with("path", path_value(&dir)));
    }
    Ok(Some(dir))
}
