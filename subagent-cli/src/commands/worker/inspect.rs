//! `worker inspect`: workers, what they ask, their last snapshots, their last events.

use clap::Args;
use serde_json::Value;

use crate::client::{ApiRequest, DaemonClient, RequestPath, block_on, segment};
use crate::command_line::flags::workers::ShownWorkers;
use crate::commands::targets::contract_form::without_name_of;
use crate::commands::targets::named_worker;
use crate::commands::targets::several::{ChangeReport, each};
use crate::context::{CliContext, present};
use crate::failure::Result;
use crate::output::{CliOutcome, text};

/// Look into workers: their state, open questions and last events
#[derive(Debug, Args)]
#[command(
    override_usage = "subagent worker inspect [OPTIONS] <WORKER_ID>",
    after_help = "\
Examples:
  subagent worker inspect codex-1 --tail 5 --json
  subagent worker inspect codex-1 codex-2
  subagent worker inspect codex-1 --event-type turn.failed \\
      --event-type progress.update:plan --since 2026-11-21T20:00:00Z"
)]
pub(crate) struct WorkerInspectArgs {
    /// How many of the last events that fit
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) events_limit: u32,
    /// The same; wins over --events-limit
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) tail: Option<u32>,
    /// Only events of this time or later, ISO 8601 (without an offset: UTC)
    #[arg(long, value_name = "TIME")]
    pub(crate) since: Option<String>,
    /// Only events of this turn
    #[arg(long, value_name = "TURN_ID")]
    pub(crate) turn_id: Option<String>,
    /// Only events of this type, or progress.update:KIND; can be repeated
    #[arg(long, value_name = "TYPE")]
    pub(crate) event_type: Vec<String>,
    #[command(flatten)]
    pub(crate) workers: ShownWorkers,
}

const REPORT: ChangeReport = ChangeReport {
    one: "worker.inspected",
    several: "workers.inspected",
    keys: &["workerId", "state", "recoveryState"],
    done: "inspected",
};

pub(super) fn run(args: WorkerInspectArgs, context: &CliContext) -> Result<CliOutcome> {
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
    if let ([address], [data]) = (&*addresses, &mut *items)
        && let Some(worker) = data.get_mut("worker")
    {
        without_name_of(address, worker, context);
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
