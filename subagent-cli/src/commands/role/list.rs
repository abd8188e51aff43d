//! `role list`: the roles of the config file. No daemon is involved.

use clap::Args;
use serde_json::{Value, json};

use super::show::role;
use crate::command_line::flags::{ConfigFlag, JsonFlag};
use crate::context::{CliContext, path_value};
use crate::failure::Result;
use crate::output::{CliOutcome, text};

/// List the roles of the config file with their hints
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent role list
  subagent role list --config team.yaml --json")]
pub(crate) struct RoleListArgs {
    #[command(flatten)]
    pub(crate) config: ConfigFlag,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

pub(super) fn run(args: &RoleListArgs, context: &CliContext) -> Result<CliOutcome> {
    let loaded = context.config(args.config.config.as_deref(), None)?;
    // The config's map is sorted by name.
    let items: Vec<Value> = loaded.config.role_hints.iter().map(|(name, hint)| role(name, hint)).collect();
    let data = json!({
        "count": items.len(),
        "items": items,
        "configPath": path_value(&loaded.path),
        "configLoaded": loaded.loaded,
    });
    let shown = text::rows(&data, &["name"], "(no roles configured)");
    Ok(CliOutcome::report("role.listed", data, shown))
}
