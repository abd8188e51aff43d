//! `launcher logout`: ends the login of an agent.

use clap::Args;
use serde_json::json;
use subagent_protocol::ask::AgentQuestion;

use super::handshake::LauncherAgent;
use crate::ask::Patience;
use crate::command_line::flags::{ConfigFlag, JsonFlag};
use crate::context::CliContext;
use crate::failure::Result;
use crate::output::{CliOutcome, text};

/// Log out of the agent of a launcher, if the agent offers it
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  subagent launcher logout codex --json")]
pub(crate) struct LauncherLogoutArgs {
    /// Its name in the config file
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) config: ConfigFlag,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

pub(super) fn run(args: &LauncherLogoutArgs, context: &CliContext) -> Result<CliOutcome> {
    let loaded = context.config(args.config.config.as_deref(), None)?;
    let agent = LauncherAgent::of(&loaded.config, &args.name, None, context)?;
    agent.ask(AgentQuestion::Logout, Patience::of(agent.launcher, None))?;
    agent.forget();
    let data = json!({"name": args.name, "loggedOut": true});
    let shown = text::fields(&data, &["name", "loggedOut"]);
    Ok(CliOutcome::report("launcher.logout", data, shown))
}
