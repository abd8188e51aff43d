//! `launcher list`: the launchers of the config files, and those that are built in. No daemon is involved.

use clap::Args;
use serde_json::{Value, json};

use super::handshake::{noted, workspace_of};
use super::installed;
use crate::command_line::flags::{ConfigFlag, JsonFlag};
use crate::context::{CliContext, path_value};
use crate::failure::Result;
use crate::output::{CliOutcome, OutputFormat, json, text};

/// List the launchers of the config file
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent launcher list
  subagent launcher list --all --json
  subagent launcher list --config team.yaml --json")]
pub(crate) struct LauncherListArgs {
    /// With --json: also those that are built in, and of each where it is from and whether it is installed
    #[arg(short = 'a', long)]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) config: ConfigFlag,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

pub(super) fn run(args: &LauncherListArgs, context: &CliContext) -> Result<CliOutcome> {
    let loaded = context.config(args.config.config.as_deref(), None)?;
    let workspace = workspace_of(context);
    // The config's map is sorted by name.
    let all = loaded.config.launchers.iter().map(|(name, launcher)| {
        let mut item = json!({
            "name": name,
            "backendKind": launcher.backend_kind,
            "command": launcher.command,
            "handshake": noted(workspace.as_ref(), name, launcher),
        });
        // The document without --all is that of the contract.
        if args.all || context.format == OutputFormat::Text {
            installed::found(&loaded, name, launcher, context).extend(&mut item);
        }
        (loaded.file_of_launcher(name).is_some(), item)
    });
    // Items are those of files: scripts take them for what a person has configured.
    let (items, built_in): (Vec<_>, Vec<_>) = all.partition(|(in_file, _)| *in_file);
    let values = |items: Vec<(bool, Value)>| items.into_iter().map(|(_, item)| item).collect::<Vec<_>>();
    let mut data = json!({
        "count": items.len(),
        "items": values(items),
        "configPath": path_value(&loaded.path),
        "configLoaded": loaded.loaded,
    });
    if args.all || context.format == OutputFormat::Text {
        json::extend(&mut data, [("builtIn", values(built_in).into())]);
    }
    let shown = text::rows(&data, &["name"], "(no launchers configured)");
    Ok(CliOutcome::report("launcher.listed", data, shown))
}
