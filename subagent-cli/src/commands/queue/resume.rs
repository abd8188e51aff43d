//! `queue`: what waits for a worker as a whole.

use subagent_protocol::api::GoOn;

use crate::args::queue::QueueResume;
use crate::client::{ApiRequest, DaemonClient, block_on, segment};
use crate::commands::targets::named_worker;
use crate::commands::targets::resend_environment::AgentEnvironmentSource;
use crate::context::CliContext;
use crate::failure::Result;
use crate::output::{CliOutcome, text};

pub(crate) fn run(args: &QueueResume, context: &CliContext) -> Result<CliOutcome> {
    let workspace = context.workspace(args.cwd.cwd.as_deref())?;
    let worker_id = named_worker(&args.worker_id, &workspace)?;
    let mut client = DaemonClient::new(context, &workspace);
    let worker_id = &block_on(client.pin_last(&[worker_id.to_owned()]))?.concat();
    let ask =
        ApiRequest::change(format!("/v1/workers/{}/queue/resume", segment(worker_id)), &GoOn::default())?;
    let (config, cwd) = (args.config.config.as_deref(), args.cwd.cwd.as_deref());
    let agent = AgentEnvironmentSource { worker_id, config, cwd, context };
    let with = |env, mcp_servers| GoOn { env: Some(env), mcp_servers };
    let data = block_on(async move { agent.ask(&mut client, &ask, with).await })?;
    let shown = text::fields(&data, &["workerId", "state", "turnId"]);
    let typed = std::slice::from_ref(&args.worker_id);
    Ok(CliOutcome::report("queue.resumed", data, shown).of_workers(typed))
}
