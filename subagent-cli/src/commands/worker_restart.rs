//! `worker restart`: another runtime for a worker.

use subagent_protocol::api::RestartWorker;
use subagent_protocol::mcp::McpServers;

use super::environment_again::Agent;
use super::named_worker;
use crate::args::workers::WorkerRestart;
use crate::client::{Ask, Client, block_on, segment};
use crate::context::Context;
use crate::failure::Result;
use crate::output::{Outcome, text};

pub(super) fn run(args: &WorkerRestart, context: &Context) -> Result<Outcome> {
    let workspace = context.workspace(args.one.cwd.cwd.as_deref())?;
    let worker_id = named_worker(&args.one.worker_id, &workspace)?;
    let path = format!("/v1/workers/{}/restart", segment(worker_id));
    // The daemon bounds it: it alone knows how long the launcher may take.
    let ask = Ask::change(
        path,
        &RestartWorker { force: args.force, env: None, mcp_servers: McpServers::default() },
    )?
    .within(None);
    let mut client = Client::new(context, &workspace);
    let agent =
        Agent { worker_id, config: args.config.config.as_deref(), cwd: args.one.cwd.cwd.as_deref(), context };
    let with = |env, mcp_servers| RestartWorker { force: args.force, env: Some(env), mcp_servers };
    let data = block_on(async move { agent.ask(&mut client, &ask, with).await })?;
    let shown = text::fields(&data, &["workerId", "state", "runtimePid"]);
    Ok(Outcome::report("worker.restarted", data, shown))
}
