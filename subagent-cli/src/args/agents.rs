//! Flags of the commands that ask an agent something without a worker.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{ConfigFlag, JsonFlag, numbers, path};

/// Find out whether a launcher's command is installed, and what its agent is
///
/// Without --handshake nothing is started. With it the agent is started, makes a session in an empty folder, closes it
/// and ends; what it said of itself is kept, and shown by launcher list and launcher show.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent launcher probe codex --json
  subagent launcher probe codex --handshake
  subagent launcher probe gemini --handshake --timeout 2m --json")]
pub struct LauncherProbe {
    /// Its name in the config file
    pub name: String,
    /// Start the agent and ask what it is and offers
    #[arg(long)]
    pub handshake: bool,
    /// How long each phase of the handshake may take, as 90s, 2m
    /// [default: the launcher's]
    #[arg(
        long,
        alias = "timeout-seconds",
        value_name = "TIME",
        requires = "handshake",
        value_parser = numbers::time_or_seconds
    )]
    pub timeout: Option<f64>,
    /// Where the agent makes its session [default: an empty folder]
    #[arg(long, value_name = "PATH", requires = "handshake", value_parser = path())]
    pub cwd: Option<PathBuf>,
    /// `--config`, the path of the config file.
    #[command(flatten)]
    pub config: ConfigFlag,
    /// Which form of output.
    #[command(flatten)]
    pub json: JsonFlag,
}

/// Log in to the agent of a launcher, in the way that the agent offers
///
/// Some agents open a browser, some ask at the terminal, some want a variable to be set. What the agent writes on its
/// standard error is shown.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent launcher login codex
  subagent launcher login gemini --method oauth-personal")]
pub struct LauncherLogin {
    /// Its name in the config file
    pub name: String,
    /// Which way, by its id [default: the only one]
    #[arg(long, value_name = "ID")]
    pub method: Option<String>,
    /// How long it may take, as 90s, 10m
    #[arg(
        long,
        alias = "timeout-seconds",
        value_name = "TIME",
        default_value = "10m",
        value_parser = numbers::time_or_seconds
    )]
    pub timeout: f64,
    /// `--config`, the path of the config file.
    #[command(flatten)]
    pub config: ConfigFlag,
    /// Which form of output.
    #[command(flatten)]
    pub json: JsonFlag,
}

/// Log out of the agent of a launcher, if the agent offers it
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  subagent launcher logout codex --json")]
pub struct LauncherLogout {
    /// Its name in the config file
    pub name: String,
    /// `--config`, the path of the config file.
    #[command(flatten)]
    pub config: ConfigFlag,
    /// Which form of output.
    #[command(flatten)]
    pub json: JsonFlag,
}

/// `subagent session ...`
#[allow(missing_docs)]
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub enum SessionCommand {
    List(SessionList),
    Delete(SessionDelete),
}

/// List the sessions that the agent of a launcher has kept
///
/// The list is the agent's own. A worker takes one up with worker start --resume.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent session list --launcher codex
  subagent session list --launcher codex --cwd . --json")]
pub struct SessionList {
    /// Whose sessions: a launcher of the config file
    #[arg(long, value_name = "NAME")]
    pub launcher: String,
    /// Only those of this folder [default: all]
    #[arg(long, value_name = "PATH", value_parser = path())]
    pub cwd: Option<PathBuf>,
    /// `--config`, the path of the config file.
    #[command(flatten)]
    pub config: ConfigFlag,
    /// Which form of output.
    #[command(flatten)]
    pub json: JsonFlag,
}

/// Delete a session that the agent of a launcher has kept
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  subagent session delete --launcher codex 019c2f5e-0000")]
pub struct SessionDelete {
    /// The session's id, as session list shows it
    #[arg(value_name = "SESSION")]
    pub session: String,
    /// Whose session: a launcher of the config file
    #[arg(long, value_name = "NAME")]
    pub launcher: String,
    /// `--config`, the path of the config file.
    #[command(flatten)]
    pub config: ConfigFlag,
    /// Which form of output.
    #[command(flatten)]
    pub json: JsonFlag,
}
