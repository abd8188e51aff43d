//! `worker show`: workers.

use clap::Args;

use crate::client::{ApiRequest, DaemonClient, block_on, segment};
use crate::command_line::flags::workers::ShownWorkers;
use crate::commands::targets::contract_form::without_name_of;
use crate::commands::targets::named_worker;
use crate::commands::targets::several::{ChangeReport, each};
use crate::context::CliContext;
use crate::failure::Result;
use crate::output::{CliOutcome, text};

/// Show workers
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent worker show codex-1 --json
  subagent worker show codex-1 codex-2")]
pub(crate) struct WorkerShowArgs {
    #[command(flatten)]
    pub(crate) workers: ShownWorkers,
}

/// The order of the lines.
const KEYS: &[&str] = &[
    "workerId",
    "controllerId",
    "label",
    "launcher",
    "role",
    "cwd",
    "sessionId",
    "activeTurnId",
    "runtimePid",
    "runtimeSocket",
    "state",
    "recoveryState",
    "createdAt",
    "updatedAt",
    "stoppedAt",
    "lastError",
    "unresponsive",
    "unreachable",
    "idleTimeoutMs",
    "hibernation",
    "hibernated",
    "hibernatedAt",
    "parked",
    "onRateLimit",
    "sandbox",
    "placement",
    "agent",
];

const REPORT: ChangeReport =
    ChangeReport { one: "worker.shown", several: "workers.shown", keys: KEYS, done: "shown" };

pub(super) fn run(args: &WorkerShowArgs, context: &CliContext) -> Result<CliOutcome> {
    let workspace = context.workspace(args.workers.cwd.cwd.as_deref())?;
    let addresses = args.workers.all();
    let mut client = DaemonClient::new(context, &workspace);
    let mut items = block_on(each(&mut client, &addresses, &REPORT, async |client, address| {
        client
            .ask(&ApiRequest::get(format!("/v1/workers/{}", segment(named_worker(address, &workspace)?))))
            .await
    }))?;
    if let ([address], [data]) = (&*addresses, &mut *items) {
        without_name_of(address, data, context);
    }
    Ok(REPORT.texts(&addresses, items, |_, data| text::fields(data, KEYS)))
}
