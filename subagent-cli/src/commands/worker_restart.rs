//! `worker restart`: another runtime for workers.

use subagent_protocol::api::RestartWorker;

use super::environment_again::Change;
use super::several::Report;
use crate::args::workers::WorkerRestart;
use crate::context::Context;
use crate::failure::Result;
use crate::output::Outcome;

const REPORT: Report = Report {
    one: "worker.restarted",
    several: "workers.restarted",
    keys: &["workerId", "state", "runtimePid"],
    done: "restarted",
};

pub(super) fn run(args: &WorkerRestart, context: &Context) -> Result<Outcome> {
    let change = Change { report: &REPORT, path: "restart", unbounded: true };
    change.of_each((&args.several, &args.config), context, |env, mcp_servers| RestartWorker {
        force: args.force,
        env,
        mcp_servers,
    })
}
