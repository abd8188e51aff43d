//! `launcher show`: one launcher of the config file. No daemon is involved. The values of its
//! variables are replaced by `<set>`: keys of APIs are kept there, and what this command prints
//! ends up in logs and transcripts.

use clap::Args;
use serde_json::{Map, Value, json};

use super::handshake::{noted, workspace_of};
use super::installed;
use crate::command_line::flags::{ConfigFlag, JsonFlag};
use crate::context::CliContext;
use crate::failure::Result;
use crate::output::{CliOutcome, json, text};

/// Show one launcher (values of its variables are hidden)
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  subagent launcher show codex --json")]
pub(crate) struct LauncherShowArgs {
    /// Its name in the config file
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) config: ConfigFlag,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

/// What stands for the value of a variable.
const HIDDEN: &str = "<set>";

pub(super) fn run(args: &LauncherShowArgs, context: &CliContext) -> Result<CliOutcome> {
    let loaded = context.config(args.config.config.as_deref(), None)?;
    let launcher = loaded.config.launcher(&args.name)?;
    let env: Map<String, Value> = launcher.env.keys().map(|name| (name.clone(), HIDDEN.into())).collect();
    let handshake = noted(workspace_of(context).as_ref(), &args.name, launcher);
    let mut keys = vec!["name", "backend", "command", "args", "env"];
    if !handshake.is_null() {
        keys.push("handshake");
    }
    let mut data = json!({
        "name": args.name,
        "backend": {"kind": launcher.backend_kind},
        "command": launcher.command,
        "args": launcher.args,
        "env": env,
        "handshake": handshake,
    });
    installed::add(&mut data, &loaded, &args.name, launcher, context);
    let options = &launcher.options;
    for (key, value) in [("mode", &options.mode), ("model", &options.model)] {
        if let Some(value) = value {
            json::extend(&mut data, [(key, value.as_str().into())]);
        }
    }
    if !launcher.mcp_servers.is_empty() {
        json::extend(&mut data, [("mcpServers", launcher.mcp_servers.keys().cloned().collect())]);
    }
    if !options.config_options.is_empty() {
        json::extend(&mut data, [("configOptions", json!(options.config_options))]);
    }
    let shown = text::fields(&data, &keys);
    Ok(CliOutcome::report("launcher.shown", data, shown))
}
