//! `worker restart`: another runtime for a worker.

use subagent_protocol::api::RestartWorker;

use super::named_worker;
use crate::args::workers::WorkerRestart;
use crate::client::{Ask, Client, block_on, segment};
use crate::context::Context;
use crate::failure::Result;
use crate::output::{Outcome, text};

pub(super) fn run(args: &WorkerRestart, context: &Context) -> Result<Outcome> {
    let workspace = context.workspace(args.one.cwd.cwd.as_deref())?;
    let path = format!("/v1/workers/{}/restart", segment(named_worker(&args.one.worker_id, &workspace)?));
    // The daemon bounds it: it alone knows how long the launcher may take.
    let ask = Ask::change(path, &RestartWorker { force: args.force })?.within(None);
    let mut client = Client::new(context, &workspace);
    let data = block_on(async move { client.ask(&ask).await })?;
    let shown = text::fields(&data, &["workerId", "state", "runtimePid"]);
    Ok(Outcome::report("worker.restarted", data, shown))
}
