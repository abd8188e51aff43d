//! `worker inspect`: a worker, what it asks, its last snapshot, its last events.

use serde_json::Value;

use super::contract_form::without_name_of;
use super::named_worker;
use crate::args::workers::WorkerInspect;
use crate::client::{Ask, Client, Query, block_on, segment};
use crate::context::{Context, present};
use crate::failure::Result;
use crate::output::{Outcome, text};

pub(super) fn run(args: WorkerInspect, context: &Context) -> Result<Outcome> {
    let workspace = context.workspace(args.one.cwd.cwd.as_deref())?;
    let worker = segment(named_worker(args.one.address(), &workspace)?);
    let types = (!args.event_type.is_empty()).then(|| args.event_type.join(","));
    let path = Query::new(format!("/v1/workers/{worker}/inspect"))
        .with("eventsLimit", Some(&args.tail.unwrap_or(args.events_limit).to_string()))
        .with("since", args.since.as_deref())
        .with("turnId", present(args.turn_id).as_deref())
        .with("eventTypes", types.as_deref());
    let mut client = Client::new(context, &workspace);
    let mut data = block_on(async move { client.ask(&Ask::get(path)).await })?;
    without_name_of(args.one.address(), &mut data["worker"], context);
    let count = |name: &str| data[name].as_array().map_or(0, Vec::len);
    let shown = format!(
        "{}\npendingApprovals: {}\nevents: {}",
        text::fields(data.get("worker").unwrap_or(&Value::Null), &["workerId", "state", "recoveryState"]),
        count("pendingApprovals"),
        count("events")
    );
    Ok(Outcome::report("worker.inspected", data, shown))
}
