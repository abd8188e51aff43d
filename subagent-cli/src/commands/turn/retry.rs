//! `turn retry`: sends the message of a turn once more.

use clap::Args;
use subagent_protocol::api::{GoOn, TurnShown};

use super::one_turn::{OneTurnArgs, asked, path};
use crate::client::{ApiRequest, DaemonClient, block_on, read};
use crate::command_line::flags::{ConfigFlag, any_value};
use crate::commands::targets::resend_environment::AgentEnvironmentSource;
use crate::context::CliContext;
use crate::failure::Result;
use crate::output::{CliOutcome, text};

/// Send the message of a turn that failed or was canceled once more, as another turn
///
/// A busy worker gets it behind the messages that wait, an idle one at once. Look at what the turn has done before:
/// `dispatched` of `turn show` says whether its prompt was sent (yes, no, maybe).
#[derive(Debug, Args)]
#[command(mut_args = any_value, after_help = "\
Example:
  subagent turn retry turn_0123456789")]
pub(crate) struct TurnRetryArgs {
    #[command(flatten)]
    pub(crate) one: OneTurnArgs,
    #[command(flatten)]
    pub(crate) config: ConfigFlag,
}

pub(super) fn run(args: &TurnRetryArgs, context: &CliContext) -> Result<CliOutcome> {
    let workspace = context.workspace(args.one.cwd.cwd.as_deref())?;
    let turn = asked(&ApiRequest::get(path(&args.one.turn_id, "", &workspace)?), &workspace, context)?;
    let turn: TurnShown = read(turn)?;
    let worker_id = turn.worker_id.as_str();
    let ask = ApiRequest::change(path(&args.one.turn_id, "/retry", &workspace)?, &GoOn::default())?;
    let mut client = DaemonClient::new(context, &workspace);
    let (config, cwd) = (args.config.config.as_deref(), args.one.cwd.cwd.as_deref());
    let agent = AgentEnvironmentSource { worker_id, config, cwd, context };
    let with = |env, mcp_servers| GoOn { env: Some(env), mcp_servers };
    let data = block_on(async move { agent.ask(&mut client, &ask, with).await })?;
    let queued = data.get("position").is_some();
    let keys: &[&str] = match queued {
        true => &["workerId", "turnId", "state", "position"],
        false => &["workerId", "turnId", "state"],
    };
    let shown = text::fields(&data, keys);
    Ok(CliOutcome::report(if queued { "turn.queued" } else { "turn.accepted" }, data, shown))
}
