//! One queued or open turn: its address, and requests about it.

use clap::Args;
use serde_json::Value;
use subagent_config::Workspace;
use subagent_protocol::Code;

use crate::client::{ApiRequest, DaemonClient, block_on, segment};
use crate::command_line::flags::{CwdFlag, JsonFlag};
use crate::commands::targets::has_state;
use crate::context::CliContext;
use crate::failure::{Failure, Result};

/// One turn, and where it is.
#[derive(Debug, Args)]
pub(crate) struct OneTurnArgs {
    /// The id of the turn
    #[arg(value_name = "TURN")]
    pub(crate) turn_id: String,
    #[command(flatten)]
    pub(crate) cwd: CwdFlag,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

pub(super) fn asked(ask: &ApiRequest, workspace: &Workspace, context: &CliContext) -> Result<Value> {
    let mut client = DaemonClient::new(context, workspace);
    block_on(async move { client.ask(ask).await })
}

/// The path of a turn, unless there can be no such turn.
pub(super) fn path(turn_id: &str, what: &str, workspace: &Workspace) -> Result<String> {
    if turn_id.is_empty() || !has_state(workspace) {
        let message = format!("there is no turn {turn_id}; `subagent turn list` shows those of a worker");
        return Err(Failure::new(Code::TurnNotFound, message).with("turnId", turn_id));
    }
    Ok(format!("/v1/turns/{}{what}", segment(turn_id)))
}
