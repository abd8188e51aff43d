//! `worker resume`: parked workers and paused queues go on.

use subagent_protocol::api::GoOn;

use super::contract_form::without_name_of;
use super::environment_again::Agent;
use super::named_worker;
use super::several::{Report, each};
use crate::args::workers::WorkerResume;
use crate::client::{Ask, Client, block_on, segment};
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
    let cwd = args.several.cwd.cwd.as_deref();
    let workspace = context.workspace(cwd)?;
    let addresses = args.several.workers.all();
    let mut client = Client::new(context, &workspace);
    let items = block_on(each(&mut client, addresses, &REPORT, async |client, address| {
        let worker_id = named_worker(address, &workspace)?;
        let path = format!("/v1/workers/{}/queue/resume", segment(worker_id));
        let ask = Ask::change(path, &GoOn::default())?;
        let agent = Agent { worker_id, config: args.config.config.as_deref(), cwd, context };
        let with = |env, mcp_servers| GoOn { env: Some(env), mcp_servers };
        let mut data = agent.ask(client, &ask, with).await?;
        without_name_of(address, &mut data, context);
        Ok(data)
    }))?;
    Ok(REPORT.outcome(addresses, items))
}
