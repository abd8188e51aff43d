//! `worker restart`: another runtime for workers.

use subagent_protocol::api::RestartWorker;

use crate::args::workers::WorkerRestart;
use crate::commands::targets::resend_environment::BulkWorkerChange;
use crate::commands::targets::several::ChangeReport;
use crate::context::CliContext;
use crate::failure::Result;
use crate::output::CliOutcome;

const REPORT: ChangeReport = ChangeReport {
    one: "worker.restarted",
    several: "workers.restarted",
    keys: &["workerId", "state", "runtimePid"],
    done: "restarted",
};

pub(crate) fn run(args: &WorkerRestart, context: &CliContext) -> Result<CliOutcome> {
    let change = BulkWorkerChange { report: &REPORT, path: "restart", unbounded: true };
    change.of_each((&args.several, &args.config), context, |env, mcp_servers| RestartWorker {
        force: args.force,
        env,
        mcp_servers,
    })
}
