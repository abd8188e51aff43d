//! `worker stop`: ends a worker and every process of it, or all that have some tags. `--force` changes nothing: every
//! state may be left so.

use serde_json::{Value, json};
use subagent_config::Workspace;

use super::selected::Choice;
use super::{has_state, named_worker};
use crate::args::workers::WorkerStop;
use crate::client::{Ask, Client, block_on, segment};
use crate::context::Context;
use crate::failure::{Failure, Result};
use crate::output::{Outcome, text};

pub(super) fn run(args: &WorkerStop, context: &Context) -> Result<Outcome> {
    let workspace = context.workspace(args.cwd.cwd.as_deref())?;
    if let Some(selector) = &args.selector.selector {
        return all(Choice { controller_id: None, selector: Some(selector.clone()) }, &workspace, context);
    }
    let worker_id = named_worker(args.worker_id.as_deref().unwrap_or_default(), &workspace)?.to_owned();
    let mut client = Client::new(context, &workspace);
    let data = block_on(async move { stop(&mut client, &worker_id).await })?;
    let shown = text::fields(&data, &["workerId", "state"]);
    Ok(Outcome::report("worker.stopped", data, shown))
}

/// Stops a worker; gives the data of `worker.stopped`.
pub(super) async fn stop(client: &mut Client, worker_id: &str) -> Result<Value> {
    client.ask(&Ask::change(format!("/v1/workers/{}/stop", segment(worker_id)), &json!({}))?).await
}

/// Stops one after the other. What cannot be stopped does not keep the others from it.
fn all(choice: Choice, workspace: &Workspace, context: &Context) -> Result<Outcome> {
    choice.ask()?;
    if !has_state(workspace) {
        return Err(choice.none());
    }
    let mut client = Client::new(context, workspace);
    let (items, failure) = block_on(async {
        let (mut items, mut failure) = (Vec::new(), None);
        for worker_id in choice.workers(&mut client).await? {
            match stop(&mut client, &worker_id).await {
                Ok(data) => items.push(data),
                Err(error) => failure = failure.or(Some(error.with("workerId", worker_id))),
            }
        }
        Ok((items, failure))
    })?;
    let failed = |failure: Failure| failure.with("stopped", items.clone());
    if let Some(failure) = failure {
        return Err(failed(failure));
    }
    let data = json!({"count": items.len(), "items": items, "selector": choice.selector});
    let shown = text::rows(&data, &["workerId", "state"], "");
    Ok(Outcome::report("workers.stopped", data, shown))
}
