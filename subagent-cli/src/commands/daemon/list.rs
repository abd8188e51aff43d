//! `daemon list`: the daemons of this user that run. Starts none.

use clap::Args;
use serde_json::{Value, json};

use super::facts::facts;
use crate::client::{Unreachable, block_on, daemons};
use crate::command_line::flags::JsonFlag;
use crate::context::CliContext;
use crate::failure::Result;
use crate::output::{CliOutcome, text};

/// List your running daemons, of all workspaces
///
/// They are found by their sockets, in XDG_RUNTIME_DIR and in /tmp: a daemon
/// that was started with another XDG_RUNTIME_DIR is not among them.
#[derive(Debug, Args)]
#[command(
    verbatim_doc_comment,
    after_help = "\
Examples:
  subagent daemon list
  subagent daemon list --json"
)]
pub(crate) struct DaemonListArgs {
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

pub(super) fn run(context: &CliContext) -> Result<CliOutcome> {
    let (found, unreachable) = block_on(async { Ok(daemons(&context.env).await) })?;
    let items: Vec<Value> = found.iter().map(|shown| facts(shown).into()).collect();
    let data = json!({
        "count": items.len(), "items": items,
        "unreachable": unreachable.iter().map(Unreachable::shown).collect::<Vec<_>>(),
    });
    unreachable.iter().for_each(|one| one.warn(context));
    let shown = text::rows(&data, &["pid", "liveWorkers", "stateDir"], "");
    Ok(CliOutcome::list("daemons.listed", data, shown, "(no daemons)"))
}
