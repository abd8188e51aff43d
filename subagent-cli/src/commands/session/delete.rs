//! `session delete`: an agent forgets a session that it has kept.

use clap::Args;
use serde_json::json;
use subagent_protocol::ask::AgentQuestion;

use crate::ask::Patience;
use crate::command_line::flags::{ConfigFlag, JsonFlag};
use crate::commands::launcher::handshake::LauncherAgent;
use crate::context::CliContext;
use crate::failure::{Failure, Result};
use crate::output::{CliOutcome, text};

/// Delete a session that the agent of a launcher has kept
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  subagent session delete --launcher codex 019c2f5e-0000")]
pub(crate) struct SessionDeleteArgs {
    /// The session's id, as session list shows it
    #[arg(value_name = "SESSION")]
    pub(crate) session: String,
    /// Whose session: a launcher of the config file
    #[arg(long, value_name = "NAME")]
    pub(crate) launcher: String,
    #[command(flatten)]
    pub(crate) config: ConfigFlag,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

pub(super) fn run(args: &SessionDeleteArgs, context: &CliContext) -> Result<CliOutcome> {
    if args.session.is_empty() {
        return Err(Failure::argument("an empty text names no session; `subagent session list` shows them"));
    }
    let loaded = context.config(args.config.config.as_deref(), None)?;
    let agent = LauncherAgent::of(&loaded.config, &args.launcher, None, context)?;
    let question = AgentQuestion::DeleteSession { session_id: args.session.clone() };
    agent.ask(question, Patience::of(agent.launcher, None))?;
    let data = json!({"launcher": args.launcher, "sessionId": args.session});
    let shown = text::fields(&data, &["launcher", "sessionId"]);
    Ok(CliOutcome::report("session.deleted", data, shown))
}
