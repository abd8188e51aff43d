//! `worker stop`: ends a worker and every process of it. `--force` changes nothing: every state may be left so.

use serde_json::json;

use super::named_worker;
use crate::args::workers::WorkerStop;
use crate::client::{Ask, Client, block_on, segment};
use crate::context::Context;
use crate::failure::Result;
use crate::output::{Outcome, text};

pub(super) fn run(args: &WorkerStop, context: &Context) -> Result<Outcome> {
    let workspace = context.workspace(args.one.cwd.cwd.as_deref())?;
    let path = format!("/v1/workers/{}/stop", segment(named_worker(&args.one.worker_id, &workspace)?));
    let ask = Ask::change(path, &json!({}))?;
    let mut client = Client::new(context, &workspace);
    let data = block_on(async move { client.ask(&ask).await })?;
    let shown = text::fields(&data, &["workerId", "state"]);
    Ok(Outcome::report("worker.stopped", data, shown))
}
