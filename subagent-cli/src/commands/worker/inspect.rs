//! `worker inspect`: workers, what they ask, their last snapshots, their last events.

use serde_json::Value;

use crate::args::workers::WorkerInspect;
use crate::client::{ApiRequest, DaemonClient, RequestPath, block_on, segment};
use crate::commands::targets::contract_form::without_name_of;
use crate::commands::targets::named_worker;
use crate::commands::targets::several::{ChangeReport, each};
use crate::context::{CliContext, present};
use crate::failure::Result;
use crate::output::{CliOutcome, text};

const REPORT: ChangeReport = ChangeReport {
    one: "worker.inspected",
    several: "workers.inspected",
    keys: &["workerId", "state", "recoveryState"],
    done: "inspected",
};

pub(crate) fn run(args: WorkerInspect, context: &CliContext) -> Result<CliOutcome> {
    let workspace = context.workspace(args.workers.cwd.cwd.as_deref())?;
    let addresses = args.workers.all();
    let limit = args.tail.unwrap_or(args.events_limit).to_string();
    let turn_id = present(args.turn_id);
    let types = (!args.event_type.is_empty()).then(|| args.event_type.join(","));
    let mut client = DaemonClient::new(context, &workspace);
    let mut items = block_on(each(&mut client, &addresses, &REPORT, async |client, address| {
        let worker = segment(named_worker(address, &workspace)?);
        let path = RequestPath::new(format!("/v1/workers/{worker}/inspect"))
            .with("eventsLimit", Some(&limit))
            .with("since", args.since.as_deref())
            .with("turnId", turn_id.as_deref())
            .with("eventTypes", types.as_deref());
        client.ask(&ApiRequest::get(path)).await
    }))?;
    if let ([address], [data]) = (&*addresses, &mut *items) {
        without_name_of(address, &mut data["worker"], context);
    }
    Ok(REPORT.texts(&addresses, items, |_, data| shown(data)))
}

fn shown(data: &Value) -> String {
    let count = |name: &str| data[name].as_array().map_or(0, Vec::len);
    format!(
        "{}\npendingApprovals: {}\nevents: {}",
        text::fields(data.get("worker").unwrap_or(&Value::Null), REPORT.keys),
        count("pendingApprovals"),
        count("events")
    )
}
