//! `worker logs`: the end of what a worker's agent wrote to its standard error.

use crate::args::workers::WorkerLogs;
use crate::client::{ApiRequest, DaemonClient, RequestPath, block_on, segment};
use crate::commands::targets::named_worker;
use crate::commands::targets::several::{ChangeReport, each};
use crate::context::CliContext;
use crate::failure::Result;
use crate::output::CliOutcome;

const REPORT: ChangeReport =
    ChangeReport { one: "worker.logs", several: "workers.logs", keys: &[], done: "read" };

pub(crate) fn run(args: &WorkerLogs, context: &CliContext) -> Result<CliOutcome> {
    let workspace = context.workspace(args.several.cwd.cwd.as_deref())?;
    let addresses = args.several.workers.all();
    let mut client = DaemonClient::new(context, &workspace);
    let items = block_on(each(&mut client, addresses, &REPORT, async |client, address| {
        let worker = segment(named_worker(address, &workspace)?);
        let path = RequestPath::new(format!("/v1/workers/{worker}/logs"))
            .with("tailBytes", Some(&args.tail_bytes.to_string()));
        client.ask(&ApiRequest::get(path)).await
    }))?;
    Ok(REPORT.texts(&client.names(addresses), items, |address, data| {
        let log = data["text"].as_str().unwrap_or_default();
        match addresses {
            [_] => log.to_owned(),
            _ => format!("== {address}\n{log}"),
        }
    }))
}
