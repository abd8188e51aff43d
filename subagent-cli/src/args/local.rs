//! Flags of `config` and `launcher`.

use std::path::PathBuf;

use clap::Args;

use super::{ConfigFlag, JsonFlag, path};

/// Write a config file to begin with
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent config init
  subagent config init --scope project --cwd ~/src/thing
  subagent config init --path /tmp/subagent.yaml --force")]
pub struct ConfigInit {
    /// For whom: user (all your projects) or project (the folder of --cwd)
    #[arg(long, default_value = "user")]
    pub scope: String,
    /// The project's folder [default: .]
    #[arg(long, value_name = "PATH", value_parser = path())]
    pub cwd: Option<PathBuf>,
    /// Write this file instead
    #[arg(long, value_name = "PATH", value_parser = path())]
    pub path: Option<PathBuf>,
    /// Replace a file that is there already
    #[arg(long)]
    pub force: bool,
    /// Which form of output.
    #[command(flatten)]
    pub json: JsonFlag,
}

/// List the launchers of the config file
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent launcher list
  subagent launcher list --all --json
  subagent launcher list --config team.yaml --json")]
pub struct LauncherList {
    /// With --json: also those that are built in, and of each where it is from and whether it is installed
    #[arg(short = 'a', long)]
    pub all: bool,
    /// `--config`, the path of the config file.
    #[command(flatten)]
    pub config: ConfigFlag,
    /// Which form of output.
    #[command(flatten)]
    pub json: JsonFlag,
}

/// Show one launcher (values of its variables are hidden)
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  subagent launcher show codex --json")]
pub struct LauncherName {
    /// Its name in the config file
    pub name: String,
    /// `--config`, the path of the config file.
    #[command(flatten)]
    pub config: ConfigFlag,
    /// Which form of output.
    #[command(flatten)]
    pub json: JsonFlag,
}
