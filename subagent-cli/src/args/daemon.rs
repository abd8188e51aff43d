//! Flags of `daemon`.

use clap::{Args, Subcommand};

use super::{CwdFlag, JsonFlag};

/// `subagent daemon ...`
#[allow(missing_docs)]
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub enum DaemonCommand {
    Start(DaemonStart),
    Stop(DaemonStop),
    Restart(DaemonRestart),
    Status(DaemonStatus),
    List(DaemonList),
    Logs(DaemonLogs),
    Install(DaemonInstall),
    Uninstall(DaemonUninstall),
}

/// Flags of commands that need nothing but the workspace.
#[derive(Debug, Args)]
pub struct DaemonFlags {
    /// `--cwd`, a folder of the workspace.
    #[command(flatten)]
    pub cwd: CwdFlag,
    /// Which form of output.
    #[command(flatten)]
    pub json: JsonFlag,
}

/// List your running daemons, of all workspaces
///
/// They are found by their sockets, in XDG_RUNTIME_DIR and in /tmp: a daemon
/// that was started with another XDG_RUNTIME_DIR is not among them.
#[derive(Debug, Args)]
#[command(
    verbatim_doc_comment,
    after_help = "\
Examples:
  subagent daemon list
  subagent daemon list --json"
)]
pub struct DaemonList {
    /// Which form of output.
    #[command(flatten)]
    pub json: JsonFlag,
}

/// Have systemd keep this workspace's daemon: a unit of your own user manager
///
/// Writes the unit and, where the manager can be reached, enables and starts
/// it; else it says what to type. Its workers go on when the unit is stopped
/// or restarted. Without `loginctl enable-linger` the manager ends everything
/// when you log out.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent daemon install
  subagent daemon install --print
  subagent daemon install --cwd ~/src/thing --json")]
pub struct DaemonInstall {
    /// Only print the unit; nothing is written or started
    #[arg(long)]
    pub print: bool,
    /// `--cwd`, a folder of the workspace.
    #[command(flatten)]
    pub cwd: CwdFlag,
    /// Which form of output.
    #[command(flatten)]
    pub json: JsonFlag,
}

/// Stop the daemon; its workers go on unless --workers is given
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent daemon stop
  subagent daemon stop --workers --json")]
pub struct DaemonStop {
    /// Also stop all workers
    #[arg(long)]
    pub workers: bool,
    /// `--cwd`, a folder of the workspace.
    #[command(flatten)]
    pub cwd: CwdFlag,
    /// Which form of output.
    #[command(flatten)]
    pub json: JsonFlag,
}

/// Show the end of the daemon's log
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent daemon logs --lines 20
  subagent daemon logs --tail-bytes 1000000 --json")]
pub struct DaemonLogs {
    /// How much of the end, in bytes
    #[arg(long, value_name = "N", default_value_t = 65_536, value_parser = super::numbers::count)]
    pub tail_bytes: u64,
    /// Maximum number of lines
    #[arg(long, value_name = "N", value_parser = super::numbers::count)]
    pub lines: Option<u64>,
    /// `--cwd`, a folder of the workspace.
    #[command(flatten)]
    pub cwd: CwdFlag,
    /// Which form of output.
    #[command(flatten)]
    pub json: JsonFlag,
}

/// Start the daemon in the background, unless it runs already
///
/// Commands start it by themselves; this is for seeing that it works. It also starts it where
/// SUBAGENT_NO_AUTOSTART is set.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent daemon start
  subagent daemon start --cwd ~/src/thing --json")]
pub struct DaemonStart {
    /// Which workspace, and which form of output.
    #[command(flatten)]
    pub flags: DaemonFlags,
}

/// Replace the daemon by a new one; workers and their turns go on
///
/// A daemon that was started with `subagentd run` is left alone: restart it where it was started.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  subagent daemon restart --json")]
pub struct DaemonRestart {
    /// Which workspace, and which form of output.
    #[command(flatten)]
    pub flags: DaemonFlags,
}

/// Show whether a daemon runs, and where everything is
///
/// Exits with 0 whether it runs or not. It is never started by this.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent daemon status
  subagent daemon status --json")]
pub struct DaemonStatus {
    /// Which workspace, and which form of output.
    #[command(flatten)]
    pub flags: DaemonFlags,
}

/// Remove the unit that `install` made; the daemon ends, its workers go on
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  subagent daemon uninstall --json")]
pub struct DaemonUninstall {
    /// Which workspace, and which form of output.
    #[command(flatten)]
    pub flags: DaemonFlags,
}

impl DaemonCommand {
    /// Whether it was given `--json`.
    #[must_use]
    pub fn json(&self) -> bool {
        match self {
            Self::Start(start) => start.flags.json.json,
            Self::Restart(restart) => restart.flags.json.json,
            Self::Status(status) => status.flags.json.json,
            Self::Uninstall(uninstall) => uninstall.flags.json.json,
            Self::List(list) => list.json.json,
            Self::Install(install) => install.json.json,
            Self::Stop(stop) => stop.json.json,
            Self::Logs(logs) => logs.json.json,
        }
    }
}
