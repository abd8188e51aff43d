//! `queue`: what waits for a worker as a whole.

use clap::Args;
use subagent_protocol::api::GoOn;

use crate::client::{ApiRequest, DaemonClient, block_on, last_worker, segment};
use crate::command_line::flags::{ConfigFlag, CwdFlag, JsonFlag};
use crate::commands::targets::named_worker;
use crate::commands::targets::resend_environment::AgentEnvironmentSource;
use crate::context::CliContext;
use crate::failure::Result;
use crate::output::{CliOutcome, text};

/// Have the messages go on that wait in a paused queue
///
/// A turn that fails or is lost pauses the queue behind it. A queue that is not paused is left as it is.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  subagent queue resume --worker-id w_0123456789")]
pub(crate) struct QueueResumeArgs {
    /// The worker's id
    #[arg(long, value_name = "ID")]
    pub(crate) worker_id: String,
    #[command(flatten)]
    pub(crate) cwd: CwdFlag,
    #[command(flatten)]
    pub(crate) config: ConfigFlag,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

pub(crate) fn run(args: &QueueResumeArgs, context: &CliContext) -> Result<CliOutcome> {
    let workspace = context.workspace(args.cwd.cwd.as_deref())?;
    let worker_id = named_worker(&args.worker_id, &workspace)?;
    let mut client = DaemonClient::new(context, &workspace);
    let worker_id = &block_on(last_worker::pin(&mut client, &[worker_id.to_owned()]))?.concat();
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
