//! `turn`: looks at turns, and changes what waits.

use serde_json::{Value, json};
use subagent_config::Workspace;
use subagent_protocol::Code;
use subagent_protocol::api::{GoOn, MoveTurn};

use crate::args::queue::{TurnCommand, TurnList, TurnMove, TurnRetry};
use crate::client::{ApiRequest, DaemonClient, block_on, segment};
use crate::commands::targets::resend_environment::AgentEnvironmentSource;
use crate::commands::targets::{has_state, named_worker};
use crate::context::CliContext;
use crate::failure::{Failure, Result};
use crate::output::{CliOutcome, text};

/// The position behind all queued messages.
const LAST: u32 = u32::MAX;

pub(crate) fn run(command: &TurnCommand, context: &CliContext) -> Result<CliOutcome> {
    match command {
        TurnCommand::List(args) => list(args, context),
        TurnCommand::Show(args) => {
            let workspace = context.workspace(args.one.cwd.cwd.as_deref())?;
            let ask = ApiRequest::get(path(&args.one.turn_id, "", &workspace)?);
            let data = asked(&ask, &workspace, context)?;
            let mut shown = text::fields(&data, &["workerId", "turnId", "status", "position", "dispatched"]);
            if let Some(said) = data["text"].as_str() {
                shown.push_str(&format!("\ntext: {said}"));
            }
            Ok(CliOutcome::report("turn.shown", data, shown))
        }
        TurnCommand::Drop(args) => {
            let workspace = context.workspace(args.one.cwd.cwd.as_deref())?;
            let ask = ApiRequest::change(path(&args.one.turn_id, "/drop", &workspace)?, &json!({}))?;
            let data = asked(&ask, &workspace, context)?;
            let shown = text::fields(&data, &["workerId", "turnId"]);
            Ok(CliOutcome::report("turn.dropped", data, shown))
        }
        TurnCommand::Move(args) => move_to(args, context),
        TurnCommand::Retry(args) => retry(args, context),
    }
}

fn list(args: &TurnList, context: &CliContext) -> Result<CliOutcome> {
    let workspace = context.workspace(args.cwd.cwd.as_deref())?;
    let worker = segment(named_worker(&args.worker_id, &workspace)?);
    let ask = ApiRequest::get(format!("/v1/workers/{worker}/turns?ended={}", args.ended));
    let data = asked(&ask, &workspace, context)?;
    let shown = text::rows(&data, &["turnId", "status", "position", "text"], "");
    Ok(CliOutcome::list("turn.listed", data, shown, "(no turns)"))
}

fn move_to(args: &TurnMove, context: &CliContext) -> Result<CliOutcome> {
    let to = match (args.to, args.first, args.last) {
        (Some(place), ..) => place,
        (None, true, _) => 1,
        (None, false, true) => LAST,
        (None, false, false) => {
            return Err(Failure::argument("where to? give --to PLACE, --first or --last"));
        }
    };
    let workspace = context.workspace(args.one.cwd.cwd.as_deref())?;
    let ask = ApiRequest::change(path(&args.one.turn_id, "/move", &workspace)?, &MoveTurn { to })?;
    let data = asked(&ask, &workspace, context)?;
    let shown = text::fields(&data, &["workerId", "turnId", "position"]);
    Ok(CliOutcome::report("turn.moved", data, shown))
}

fn retry(args: &TurnRetry, context: &CliContext) -> Result<CliOutcome> {
    let workspace = context.workspace(args.one.cwd.cwd.as_deref())?;
    let turn = asked(&ApiRequest::get(path(&args.one.turn_id, "", &workspace)?), &workspace, context)?;
    let worker_id = turn["workerId"].as_str().unwrap_or_default();
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

fn asked(ask: &ApiRequest, workspace: &Workspace, context: &CliContext) -> Result<Value> {
    let mut client = DaemonClient::new(context, workspace);
    block_on(async move { client.ask(ask).await })
}

/// The path of a turn, unless there can be no such turn.
fn path(turn_id: &str, what: &str, workspace: &Workspace) -> Result<String> {
    if turn_id.is_empty() || !has_state(workspace) {
        let message = format!("there is no turn {turn_id}; `subagent turn list` shows those of a worker");
        return Err(Failure::new(Code::TurnNotFound, message).with("turnId", turn_id));
    }
    Ok(format!("/v1/turns/{}{what}", segment(turn_id)))
}
