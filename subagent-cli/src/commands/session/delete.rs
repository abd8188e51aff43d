//! `session delete`: an agent forgets a session that it has kept.

use serde_json::json;
use subagent_protocol::ask::AgentQuestion;

use crate::args::agents::SessionDelete;
use crate::ask::Patience;
use crate::commands::launcher::handshake::LauncherAgent;
use crate::context::CliContext;
use crate::failure::{Failure, Result};
use crate::output::{CliOutcome, text};

pub(crate) fn run(args: &SessionDelete, context: &CliContext) -> Result<CliOutcome> {
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
