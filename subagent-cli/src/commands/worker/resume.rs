//! `worker resume`: parked workers and paused queues go on.

use subagent_protocol::api::GoOn;

use crate::args::workers::WorkerResume;
use crate::commands::targets::resend_environment::BulkWorkerChange;
use crate::commands::targets::several::ChangeReport;
use crate::context::CliContext;
use crate::failure::Result;
use crate::output::CliOutcome;

const REPORT: ChangeReport = ChangeReport {
    one: "worker.resumed",
    several: "workers.resumed",
    keys: &["workerId", "state", "unparked", "resumed", "turnId"],
    done: "resumed",
};

pub(crate) fn run(args: &WorkerResume, context: &CliContext) -> Result<CliOutcome> {
    let change = BulkWorkerChange { report: &REPORT, path: "queue/resume", unbounded: false };
    change.of_each((&args.several, &args.config), context, |env, mcp_servers| GoOn { env, mcp_servers })
}
