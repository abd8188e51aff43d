//! `result`: prints the final message of a turn, and says in its exit code how the turn went.

use clap::Args;
use subagent_config::Workspace;
use subagent_protocol::api::{TurnList, TurnProgress};
use subagent_protocol::{Code, worker_name};

use crate::client::{ApiRequest, DaemonClient, block_on, segment};
use crate::command_line::flags::{CwdFlag, JsonFlag};
use crate::commands::targets::{has_state, named_worker};
use crate::commands::waiting::turn_result::{self, EndedTurn};
use crate::context::{CliContext, present};
use crate::failure::{Failure, Result};
use crate::output::{CliOutcome, OutputFormat, explain};

/// Print the final message of a turn
///
/// The message is what the agent said after its last tool call; if it said nothing then, all of its text. Without an
/// argument the turn is the last one of the worker that was started or addressed last. The exit code is that of `run`:
/// 0 completed, 10 failed, 11 canceled, 12 denied, 16 refusal, ... (docs/ci.md). A turn that is still open is an error.
#[derive(Debug, Args)]
#[command(
    override_usage = "subagent result [OPTIONS]\n       subagent result [OPTIONS] <WORKER|TURN>",
    after_help = "\
Examples:
  subagent result codex-1
  subagent result turn_0123456789 --json"
)]
pub(crate) struct ResultArgs {
    /// The worker (its last turn) or the turn [default: the last worker]
    #[arg(value_name = "WORKER|TURN")]
    pub(crate) address: Option<String>,
    #[command(flatten)]
    pub(crate) cwd: CwdFlag,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

/// How the id of a turn begins.
const TURN: &str = "turn_";

pub(super) fn run(args: ResultArgs, context: &CliContext) -> Result<CliOutcome> {
    let workspace = context.workspace(args.cwd.cwd.as_deref())?;
    let address = present(args.address).unwrap_or_else(|| worker_name::LAST.to_owned());
    let mut client = DaemonClient::new(context, &workspace);
    let result = block_on(async {
        let turn_id = turn_of(&mut client, &address, &workspace).await?;
        EndedTurn::of(&mut client, &turn_id).await
    })?;
    if context.format == OutputFormat::Text
        && let Some(reason) = result.reason()
    {
        let mut lines = vec![format!("result: {reason}")];
        lines.extend(result.advice());
        explain(&lines);
    }
    let (text, code) = (result.message().to_owned(), result.outcome.code());
    Ok(CliOutcome::Judged { kind: "turn.result", data: result.data(), text, code })
}

/// Returns the turn with this id, or the last turn of a worker that was begun.
async fn turn_of(client: &mut DaemonClient, address: &str, workspace: &Workspace) -> Result<String> {
    if address.starts_with(TURN) && has_state(workspace) {
        return Ok(address.to_owned());
    }
    let worker = segment(named_worker(address, workspace)?);
    let list: TurnList =
        client.ask_for(&ApiRequest::get(format!("/v1/workers/{worker}/turns?ended=1"))).await?;
    let begun = list.items.iter().rfind(|turn| turn.status != TurnProgress::Queued);
    let last = begun.or(list.items.first());
    let Some(last) = last else {
        let message = "the worker has had no turn; send it a message with `subagent send`";
        return Err(Failure::new(Code::TurnNotFound, message).with("workerId", list.worker_id.as_str()));
    };
    match last.status {
        TurnProgress::Queued | TurnProgress::Open => {
            Err(turn_result::open(&list.worker_id, &last.turn_id, last.status))
        }
        _ => Ok(last.turn_id.to_string()),
    }
}
