//! Flags of `controller`.

use std::path::PathBuf;

use clap::Args;

use super::{JsonFlag, path};

/// Which controller a command is about.
#[derive(Debug, Args)]
pub struct Which {
    /// A folder of the workspace [default: .]
    #[arg(long, value_name = "PATH", value_parser = path())]
    pub cwd: Option<PathBuf>,
    /// Which controller [default: the workspace's]
    #[arg(long, value_name = "ID")]
    pub controller_id: Option<String>,
}

/// Become the owner of a workspace
///
/// Ownership is proved by three variables (SUBAGENT_CTL_ID, _EPOCH, _TOKEN). With them set,
/// commands fail as soon as another owner has taken the workspace over; without them they are still
/// allowed, unless --require-handle was given.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent controller init --cwd . --label build-bot
  eval \"$(subagent controller init --print-env)\"
  eval \"$(subagent controller init --require-handle --print-env)\"")]
pub struct ControllerInit {
    /// A folder of the workspace [default: .]
    #[arg(long, value_name = "PATH", value_parser = path())]
    pub cwd: Option<PathBuf>,
    /// Which controller [default: the workspace's, else a new one]
    #[arg(long, value_name = "ID")]
    pub controller_id: Option<String>,
    /// A label for people [default: default-manager]
    #[arg(long, allow_hyphen_values = true)]
    pub label: Option<String>,
    /// From now on refuse changes of its workers without the variables
    #[arg(long)]
    pub require_handle: bool,
    /// Print the three variables as lines for a shell (not with --json)
    #[arg(long)]
    pub print_env: bool,
    /// Which form of output.
    #[command(flatten)]
    pub json: JsonFlag,
}

/// Become the owner of a workspace that has a controller
///
/// As `controller init`, but nothing is made or changed beside the ownership. With --takeover the owner before is not
/// asked: its variables are worthless from then on.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent controller attach
  eval \"$(subagent controller attach --takeover --print-env)\"")]
pub struct ControllerAttach {
    /// `--cwd` and `--controller-id`, which select the controller.
    #[command(flatten)]
    pub which: Which,
    /// Also if its owner lives
    #[arg(long)]
    pub takeover: bool,
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
    /// `--cwd` and `--controller-id`, which select the controller.
    #[command(flatten)]
    pub which: Which,
    /// Which form of output.
    #[command(flatten)]
    pub json: JsonFlag,
}

/// List controllers whose owner may have died
///
/// States: dormant (no owner), active (its process lives), orphaned (its process has ended), conflicted
/// (unknown). Nothing is changed; with --json the last two have the command that takes over.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent controller recover
  subagent controller recover --cwd . --json")]
pub struct ControllerRecover {
    /// A folder of the workspace [default: all workspaces of the state dir]
    #[arg(long, value_name = "PATH", value_parser = path())]
    pub cwd: Option<PathBuf>,
    /// Which form of output.
    #[command(flatten)]
    pub json: JsonFlag,
}

/// Stop being the owner of a workspace
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent controller release
  subagent controller release --force --json")]
pub struct ControllerRelease {
    /// `--cwd` and `--controller-id`, which select the controller.
    #[command(flatten)]
    pub which: Which,
    /// Without the three variables, whether or not there is an owner
    #[arg(long)]
    pub force: bool,
    /// Which form of output.
    #[command(flatten)]
    pub json: JsonFlag,
}
