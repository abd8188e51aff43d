//! `worker logs`: the end of what a worker's agent wrote to its standard error.

use super::named_worker;
use super::several::{Report, each};
use crate::args::workers::WorkerLogs;
use crate::client::{Ask, Client, Query, block_on, segment};
use crate::context::Context;
use crate::failure::Result;
use crate::output::Outcome;

const REPORT: Report = Report { one: "worker.logs", several: "workers.logs", keys: &[], done: "read" };

pub(super) fn run(args: &WorkerLogs, context: &Context) -> Result<Outcome> {
    let workspace = context.workspace(args.several.cwd.cwd.as_deref())?;
    let addresses = args.several.workers.all();
    let mut client = Client::new(context, &workspace);
    let items = block_on(each(&mut client, addresses, &REPORT, async |client, address| {
        let worker = segment(named_worker(address, &workspace)?);
        let path = Query::new(format!("/v1/workers/{worker}/logs"))
            .with("tailBytes", Some(&args.tail_bytes.to_string()));
        client.ask(&Ask::get(path)).await
    }))?;
    Ok(REPORT.texts(addresses, items, |address, data| {
        let log = data["text"].as_str().unwrap_or_default();
        match addresses {
            [_] => log.to_owned(),
            _ => format!("== {address}\n{log}"),
        }
    }))
}
