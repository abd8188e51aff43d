//! Flags of `config`, `launcher` and `controller`.

use std::path::PathBuf;

use clap::Args;

use super::{ConfigFlag, JsonFlag};

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
    #[arg(long, value_name = "PATH")]
    pub cwd: Option<PathBuf>,
    /// Write this file instead
    #[arg(long, value_name = "PATH")]
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
  subagent launcher list --config team.yaml --json")]
pub struct LauncherList {
    /// Which config file.
    #[command(flatten)]
    pub config: ConfigFlag,
    /// Which form of output.
    #[command(flatten)]
    pub json: JsonFlag,
}

/// Show or probe one launcher
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent launcher show codex
  subagent launcher probe codex --json")]
pub struct LauncherName {
    /// Its name in the config file
    pub name: String,
    /// Which config file.
    #[command(flatten)]
    pub config: ConfigFlag,
    /// Which form of output.
    #[command(flatten)]
    pub json: JsonFlag,
}

/// Become the owner of a workspace
///
/// Ownership is proved by three variables (SUBAGENT_CTL_ID, _EPOCH, _TOKEN). With them set, commands fail as soon as
/// somebody else has taken the workspace over; without them they are still allowed.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent controller init --cwd . --label build-bot
  eval \"$(subagent controller init --print-env)\"")]
pub struct ControllerInit {
    /// A folder of the workspace [default: .]
    #[arg(long, value_name = "PATH")]
    pub cwd: Option<PathBuf>,
    /// Which controller [default: the workspace's, else a new one]
    #[arg(long, value_name = "ID")]
    pub controller_id: Option<String>,
    /// A label for people [default: default-manager]
    #[arg(long, allow_hyphen_values = true)]
    pub label: Option<String>,
    /// Print the three variables as lines for a shell (not with --json)
    #[arg(long)]
    pub print_env: bool,
    /// Which form of output.
    #[command(flatten)]
    pub json: JsonFlag,
}

/// Show who owns a workspace
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent controller status
  subagent controller status --controller-id ctl_0123456789 --json")]
pub struct ControllerStatus {
    /// A folder of the workspace [default: .]
    #[arg(long, value_name = "PATH")]
    pub cwd: Option<PathBuf>,
    /// Which controller [default: the workspace's]
    #[arg(long, value_name = "ID")]
    pub controller_id: Option<String>,
    /// Which form of output.
    #[command(flatten)]
    pub json: JsonFlag,
}
