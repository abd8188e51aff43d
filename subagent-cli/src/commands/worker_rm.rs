//! `worker rm`: removes a worker with everything that is stored of it.

use subagent_protocol::api::RemoveWorker;

use super::named_worker;
use crate::args::removal::WorkerRm;
use crate::client::{Ask, Client, block_on, segment};
use crate::context::Context;
use crate::failure::Result;
use crate::output::{Outcome, text};

pub(super) fn run(args: &WorkerRm, context: &Context) -> Result<Outcome> {
    let workspace = context.workspace(args.one.cwd.cwd.as_deref())?;
    let path = format!("/v1/workers/{}/remove", segment(named_worker(&args.one.worker_id, &workspace)?));
    let ask = Ask::change(path, &RemoveWorker { force: args.force })?;
    let mut client = Client::new(context, &workspace);
    let data = block_on(async move { client.ask(&ask).await })?;
    let shown = text::fields(&data, &["workerId", "removedAt"]);
    Ok(Outcome::report("worker.removed", data, shown))
}
