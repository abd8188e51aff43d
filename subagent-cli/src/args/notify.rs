//! Flags of `notify`.

use clap::{Args, Subcommand};

use super::{CwdFlag, JsonFlag};

/// `subagent notify ...`
#[allow(missing_docs)]
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub enum NotifyCommand {
    List(NotifyList),
    Test(NotifyTest),
    Log(NotifyLog),
}

impl NotifyCommand {
    /// Whether it was given `--json`.
    #[must_use]
    pub fn json(&self) -> bool {
        match self {
            Self::List(NotifyList { json, .. })
            | Self::Test(NotifyTest { json, .. })
            | Self::Log(NotifyLog { json, .. }) => json.json,
        }
    }
}

/// List where notifications go, as the user's config file says under `notify`
///
/// Each sink with what it is notified of, how many notifications wait for it, and its last error.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  subagent notify list")]
pub struct NotifyList {
    /// `--cwd`, a folder of the workspace.
    #[command(flatten)]
    pub cwd: CwdFlag,
    /// Which form of output.
    #[command(flatten)]
    pub json: JsonFlag,
}

/// Send a test to one sink, or to all of them, and say whether it arrived
///
/// Exits with 1 if a sink did not take it.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent notify test
  subagent notify test phone")]
pub struct NotifyTest {
    /// The name of the sink
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
    /// `--cwd`, a folder of the workspace.
    #[command(flatten)]
    pub cwd: CwdFlag,
    /// Which form of output.
    #[command(flatten)]
    pub json: JsonFlag,
}

/// Show what became of the newest notifications, newest first
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  subagent notify log")]
pub struct NotifyLog {
    /// `--cwd`, a folder of the workspace.
    #[command(flatten)]
    pub cwd: CwdFlag,
    /// Which form of output.
    #[command(flatten)]
    pub json: JsonFlag,
}
