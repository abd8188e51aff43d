//! Flags of `doctor`.

use clap::Args;

use super::{CwdFlag, JsonFlag};

/// Find problems of this installation, and say what to do about them
///
/// It looks at processes, database, journals, versions, permissions, disk, config and the system itself, also without a
/// daemon; it starts none and changes nothing. With --fix it ends processes that no daemon knows, removes sockets and
/// environments without a worker, and makes private what should be. Exits with 0 when no problem is left, else with 1.
/// Outside of a workspace it looks at what does not belong to one, and says how one is made.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent doctor
  subagent doctor --fix --json")]
pub struct Doctor {
    /// Mend what needs no decision
    #[arg(long)]
    pub fix: bool,
    /// `--cwd`, a folder of the workspace.
    #[command(flatten)]
    pub cwd: CwdFlag,
    /// Which form of output.
    #[command(flatten)]
    pub json: JsonFlag,
}
