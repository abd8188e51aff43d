//! Flags of `config show` and `config check`.

use std::path::PathBuf;

use clap::Args;

use super::{ConfigFlag, JsonFlag, path};

/// Show the config that all files together make (secrets are hidden)
///
/// Your own file counts over the built-in launchers, and the project's file over yours, key by key.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent config show
  subagent config show --origin
  subagent config show --config team.yaml --json")]
pub struct ConfigShow {
    /// Show each value with its file and line
    #[arg(long)]
    pub origin: bool,
    /// The folder from which the project's file is searched [default: .]
    #[arg(long, value_name = "PATH", value_parser = path())]
    pub cwd: Option<PathBuf>,
    /// Which config file.
    #[command(flatten)]
    pub config: ConfigFlag,
    /// Which form of output.
    #[command(flatten)]
    pub json: JsonFlag,
}

/// Check the config files, and name all problems with file and line
///
/// Exits with 1 if a file cannot be used. Unknown keys are warnings.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent config check
  subagent config check --config team.yaml --json")]
pub struct ConfigCheck {
    /// The folder from which the project's file is searched [default: .]
    #[arg(long, value_name = "PATH", value_parser = path())]
    pub cwd: Option<PathBuf>,
    /// Which config file.
    #[command(flatten)]
    pub config: ConfigFlag,
    /// Which form of output.
    #[command(flatten)]
    pub json: JsonFlag,
}
