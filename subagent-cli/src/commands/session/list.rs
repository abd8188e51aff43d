//! `session list`: the sessions that an agent has kept, from its own list.

use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};
use subagent_protocol::ask::AgentQuestion;
use subagent_protocol::handshake::ListedSession;

use crate::ask::Patience;
use crate::command_line::flags::{ConfigFlag, JsonFlag, path};
use crate::commands::launcher::handshake::LauncherAgent;
use crate::context::{CliContext, path_value, present_path};
use crate::failure::Result;
use crate::output::{CliOutcome, text};

/// List the sessions that the agent of a launcher has kept
///
/// The list is the agent's own. A worker takes one up with worker start --resume.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent session list --launcher codex
  subagent session list --launcher codex --cwd . --json")]
pub(crate) struct SessionListArgs {
    /// Whose sessions: a launcher of the config file
    #[arg(long, value_name = "NAME")]
    pub(crate) launcher: String,
    /// Only those of this folder [default: all]
    #[arg(long, value_name = "PATH", value_parser = path())]
    pub(crate) cwd: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) config: ConfigFlag,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

pub(super) fn run(args: &SessionListArgs, context: &CliContext) -> Result<CliOutcome> {
    let loaded = context.config(args.config.config.as_deref(), None)?;
    let agent = LauncherAgent::of(&loaded.config, &args.launcher, args.cwd.as_deref(), context)?;
    let cwd = present_path(args.cwd.clone()).map(|_| path_value(agent.cwd()));
    let question =
        AgentQuestion::ListSessions { cwd: cwd.as_ref().and_then(Value::as_str).map(str::to_owned) };
    let answer = agent.ask(question, Patience::of(agent.launcher, None))?;
    let items: Vec<ListedSession> = answer.sessions.iter().filter_map(ListedSession::of).collect();
    let data = json!({
        "launcher": args.launcher,
        "cwd": cwd,
        "count": items.len(),
        "items": items,
        "truncated": answer.truncated,
    });
    let shown = text::rows(&data, &["sessionId", "updatedAt", "cwd", "title"], "");
    Ok(CliOutcome::list("session.listed", data, shown, "(no sessions)"))
}
