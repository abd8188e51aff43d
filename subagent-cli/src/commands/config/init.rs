//! `config init`: writes a config file to begin with. No daemon is involved.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;
use subagent_config::init::{self, Existing, InitScope};

use crate::command_line::flags::{JsonFlag, path};
use crate::context::{CliContext, path_value};
use crate::failure::Result;
use crate::output::{CliOutcome, text};

/// Write a config file to begin with
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent config init
  subagent config init --scope project --cwd ~/src/thing
  subagent config init --path /tmp/subagent.yaml --force")]
pub(crate) struct ConfigInitArgs {
    /// For whom: user (all your projects) or project (the folder of --cwd)
    #[arg(long, default_value = "user")]
    pub(crate) scope: String,
    /// The project's folder [default: .]
    #[arg(long, value_name = "PATH", value_parser = path())]
    pub(crate) cwd: Option<PathBuf>,
    /// Write this file instead
    #[arg(long, value_name = "PATH", value_parser = path())]
    pub(crate) path: Option<PathBuf>,
    /// Replace a file that is there already
    #[arg(long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

pub(super) fn run(args: &ConfigInitArgs, context: &CliContext) -> Result<CliOutcome> {
    let scope = InitScope::parse(&args.scope)?;
    let target = init::target(args.path.as_deref(), scope, args.cwd.as_deref(), &context.env)?;
    let existing = if args.force { Existing::Replace } else { Existing::Keep };
    let written = init::init(target, scope, existing)?;
    let (path, scope) = (path_value(&written.path), written.scope.as_str());
    let shown = json!({"configPath": path, "scope": scope});
    let data = json!({"path": path, "scope": scope, "overwritten": written.overwritten});
    Ok(CliOutcome::report("config.initialized", data, text::fields(&shown, &["configPath", "scope"])))
}
