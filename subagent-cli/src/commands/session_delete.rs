//! `session delete`: an agent forgets a session that it has kept.

use serde_json::json;
use subagent_protocol::ask::Question;

use super::agent_asked::Agent;
use crate::args::agents::SessionDelete;
use crate::ask::Patience;
use crate::context::Context;
use crate::failure::{Failure, Result};
use crate::output::{Outcome, text};

pub(super) fn run(args: &SessionDelete, context: &Context) -> Result<Outcome> {
    if args.session.is_empty() {
        return Err(Failure::argument("an empty text names no session; `subagent session list` shows them"));
    }
    let loaded = context.config(args.config.config.as_deref(), None)?;
    let agent = Agent::of(&loaded.config, &args.launcher, None, context)?;
    let question = Question::DeleteSession { session_id: args.session.clone() };
    agent.ask(question, Patience::of(agent.launcher, None))?;
    let data = json!({"launcher": args.launcher, "sessionId": args.session});
    let shown = text::fields(&data, &["launcher", "sessionId"]);
    Ok(Outcome::report("session.deleted", data, shown))
}
