//! `config show`: what all config files together say. No daemon is involved.

use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};
use subagent_config::shown::{self, ConfigEntry};
use subagent_protocol::json as one_line;

use crate::command_line::flags::{ConfigFlag, JsonFlag, path};
use crate::context::{CliContext, path_value};
use crate::failure::{Failure, Result};
use crate::output::CliOutcome;

/// Show the merged config of all files (secrets are hidden)
///
/// Your own file counts over the built-in launchers, and the project's file over yours, key by key.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent config show
  subagent config show --origin
  subagent config show --config team.yaml --json")]
pub(crate) struct ConfigShowArgs {
    /// Show each value with its file and line
    #[arg(long)]
    pub(crate) origin: bool,
    /// The folder from which the project's file is searched [default: .]
    #[arg(long, value_name = "PATH", value_parser = path())]
    pub(crate) cwd: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) config: ConfigFlag,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

pub(super) fn run(args: &ConfigShowArgs, context: &CliContext) -> Result<CliOutcome> {
    let loaded = context.config(args.config.config.as_deref(), args.cwd.as_deref())?;
    let (merged, entries) = shown::of(&loaded, &context.env);
    let files: Vec<Value> = loaded
        .files
        .iter()
        .map(|file| json!({"path": path_value(&file.path), "origin": file.source.as_str()}))
        .collect();
    let mut data = json!({"config": merged, "files": files});
    let text = match args.origin {
        false => shown::yaml(&merged).map_err(Failure::internal)?,
        true => {
            one_line::extend(&mut data, [("values", entries.iter().map(value).collect())]);
            entries.iter().map(line).collect::<Vec<_>>().join("\n")
        }
    };
    Ok(CliOutcome::report("config.shown", data, text.trim_end().to_owned()))
}

fn value(entry: &ConfigEntry) -> Value {
    json!({
        "path": entry.path, "value": entry.value, "origin": entry.origin,
        "file": entry.file.as_deref().map(path_value), "line": entry.line,
    })
}

/// Key, value and place, with tabs between.
fn line(entry: &ConfigEntry) -> String {
    let plain = |text: &str| text.replace(char::is_control, " ");
    let value = match &entry.value {
        Value::String(text) => plain(text),
        other => plain(&one_line::line(other.clone())),
    };
    let place = match (&entry.file, entry.line) {
        (Some(file), Some(line)) => format!("{}:{line}", file.display()),
        (Some(file), None) => file.display().to_string(),
        (None, _) => entry.origin.to_owned(),
    };
    format!("{}\t{value}\t{}", plain(&entry.path.join(".")), plain(&place))
}
