//! `worker logs`: the end of what a worker's agent wrote to its standard error.

use super::named_worker;
use crate::args::workers::WorkerLogs;
use crate::client::{Ask, Client, Query, block_on, segment};
use crate::context::Context;
use crate::failure::Result;
use crate::output::Outcome;

pub(super) fn run(args: &WorkerLogs, context: &Context) -> Result<Outcome> {
    let workspace = context.workspace(args.one.cwd.cwd.as_deref())?;
    let worker = segment(named_worker(args.one.address(), &workspace)?);
    let path = Query::new(format!("/v1/workers/{worker}/logs"))
        .with("tailBytes", Some(&args.tail_bytes.to_string()));
    let mut client = Client::new(context, &workspace);
    let data = block_on(async move { client.ask(&Ask::get(path)).await })?;
    let shown = data["text"].as_str().unwrap_or_default().to_owned();
    Ok(Outcome::report("worker.logs", data, shown))
}
