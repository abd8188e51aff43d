//! `worker rm`: removes workers with everything that is stored of them.

use subagent_protocol::api::RemoveWorker;

use crate::args::removal::WorkerRm;
use crate::client::{ApiRequest, DaemonClient, block_on, segment};
use crate::commands::targets::named_worker;
use crate::commands::targets::several::{ChangeReport, each};
use crate::context::CliContext;
use crate::failure::Result;
use crate::output::CliOutcome;

const REPORT: ChangeReport = ChangeReport {
    one: "worker.removed",
    several: "workers.removed",
    keys: &["workerId", "removedAt"],
    done: "removed",
};

pub(crate) fn run(args: &WorkerRm, context: &CliContext) -> Result<CliOutcome> {
    let workspace = context.workspace(args.several.cwd.cwd.as_deref())?;
    let addresses = args.several.workers.all();
    let mut client = DaemonClient::new(context, &workspace);
    let items = block_on(each(&mut client, addresses, &REPORT, async |client, address| {
        let path = format!("/v1/workers/{}/remove", segment(named_worker(address, &workspace)?));
        client.ask(&ApiRequest::change(path, &RemoveWorker { force: args.force })?).await
    }))?;
    Ok(REPORT.outcome(&client.names(addresses), items))
}
