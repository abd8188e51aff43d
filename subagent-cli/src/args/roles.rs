//! Flags of `role`.

use clap::{Args, Subcommand};

use super::{ConfigFlag, JsonFlag};

/// `subagent role ...`
#[allow(missing_docs)]
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub enum RoleCommand {
    List(RoleList),
    Show(RoleName),
}

/// List the roles of the config file with their hints
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent role list
  subagent role list --config team.yaml --json")]
pub struct RoleList {
    /// `--config`, the path of the config file.
    #[command(flatten)]
    pub config: ConfigFlag,
    /// Which form of output.
    #[command(flatten)]
    pub json: JsonFlag,
}

/// Show the hints about one role
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  subagent role show reviewer --json")]
pub struct RoleName {
    /// Its name in the config file
    pub name: String,
    /// `--config`, the path of the config file.
    #[command(flatten)]
    pub config: ConfigFlag,
    /// Which form of output.
    #[command(flatten)]
    pub json: JsonFlag,
}
