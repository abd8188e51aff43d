//! `worker resume`: parked workers and paused queues go on.

use subagent_protocol::api::GoOn;

use super::environment_again::Change;
use super::several::Report;
use crate::args::workers::WorkerResume;
use crate::context::Context;
use crate::failure::Result;
use crate::output::Outcome;

const REPORT: Report = Report {
    one: "worker.resumed",
    several: "workers.resumed",
    keys: &["workerId", "state", "unparked", "resumed", "turnId"],
    done: "resumed",
};

pub(super) fn run(args: &WorkerResume, context: &Context) -> Result<Outcome> {
    let change = Change { report: &REPORT, path: "queue/resume", unbounded: false };
    change.of_each((&args.several, &args.config), context, |env, mcp_servers| GoOn { env, mcp_servers })
}
