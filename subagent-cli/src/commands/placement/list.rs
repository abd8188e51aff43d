//! `placement list`: the placements of the user's config file.

use clap::Args;
use serde_json::{Value, json};

use crate::command_line::flags::{ConfigFlag, JsonFlag};
use crate::context::CliContext;
use crate::failure::Result;
use crate::output::{CliOutcome, text};

/// List the machines of your config file on which workers can run
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent placement list
  subagent placement list --json")]
pub(crate) struct PlacementListArgs {
    #[command(flatten)]
    pub(crate) config: ConfigFlag,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

pub(super) fn run(args: &PlacementListArgs, context: &CliContext) -> Result<CliOutcome> {
    let loaded = context.config(args.config.config.as_deref(), None)?;
    let items: Vec<Value> = loaded
        .config
        .placements
        .values()
        .map(|one| {
            json!({
                "name": one.name, "kind": "ssh", "host": one.host, "cwd": one.cwd,
                "args": one.args, "program": one.program,
            })
        })
        .collect();
    let data = json!({"count": items.len(), "items": items});
    let shown = text::rows(&data, &["name", "kind", "host", "cwd"], "");
    Ok(CliOutcome::list("placement.listed", data, shown, "(no placements)"))
}
