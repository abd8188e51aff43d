//! Flags of `worker`.

use std::path::PathBuf;

use clap::Args;

use super::{ConfigFlag, CwdFlag, JsonFlag, path};

/// Start an agent as a worker
///
/// The agent inherits PATH, variables, file mode mask and descriptor limit of this command. It runs until it is
/// stopped, whatever becomes of this command, its shell or the daemon.
///
/// If you are an agent in a sandbox, ask for outside-sandbox execution of this
/// command: the worker needs the network and files that its own agent needs.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent worker start
  subagent worker start --role reviewer --cwd ~/src/thing --json
  echo '{\"launcher\": \"codex\", \"label\": \"fixer\"}' |
      subagent worker start --input -")]
pub struct WorkerStart {
    /// Which launcher of the config file [default: the role's, else the config's]
    #[arg(long, value_name = "NAME")]
    pub launcher: Option<String>,
    /// A role, free text [default: the config's, else "default"]
    #[arg(long)]
    pub role: Option<String>,
    /// Where the agent works, and whose workspace it belongs to [default: .]
    #[arg(long, value_name = "PATH", value_parser = path())]
    pub cwd: Option<PathBuf>,
    /// A label for people [default: worker]
    #[arg(long)]
    pub label: Option<String>,
    /// Whose worker it will be [default: the workspace's controller]
    #[arg(long, value_name = "ID")]
    pub controller_id: Option<String>,
    /// Start no agent until a message needs one (it need not be installed)
    #[arg(long, overrides_with = "no_debug_mode")]
    pub debug_mode: bool,
    /// Start the agent (the default)
    #[arg(long, overrides_with = "debug_mode")]
    pub no_debug_mode: bool,
    /// Read launcher, role, cwd, label, ... from a JSON file, - for stdin
    #[arg(long, value_name = "PATH", value_parser = path())]
    pub input: Option<PathBuf>,
    /// Which config file.
    #[command(flatten)]
    pub config: ConfigFlag,
    /// Which form of output.
    #[command(flatten)]
    pub json: JsonFlag,
}

/// List workers, the newest first
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent worker list
  subagent worker list --controller-id ctl_0123456789 --json")]
pub struct WorkerList {
    /// Only workers of this controller
    #[arg(long, value_name = "ID")]
    pub controller_id: Option<String>,
    /// Which workspace.
    #[command(flatten)]
    pub cwd: CwdFlag,
    /// Which form of output.
    #[command(flatten)]
    pub json: JsonFlag,
}

/// Show one worker
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  subagent worker show w_0123456789 --json")]
pub struct WorkerId {
    /// The worker's id
    #[arg(value_name = "WORKER_ID")]
    pub worker_id: String,
    /// Which workspace.
    #[command(flatten)]
    pub cwd: CwdFlag,
    /// Which form of output.
    #[command(flatten)]
    pub json: JsonFlag,
}

/// Stop a worker and every process of it
///
/// An open turn is canceled first. Success means that no process of the worker is left. A worker that is stopped
/// already stays as it is.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  subagent worker stop w_0123456789")]
pub struct WorkerStop {
    /// The worker's id
    #[arg(value_name = "WORKER_ID")]
    pub worker_id: String,
    /// Taken for older scripts; a worker can be stopped in every state
    #[arg(long)]
    pub force: bool,
    /// Which workspace.
    #[command(flatten)]
    pub cwd: CwdFlag,
    /// Which form of output.
    #[command(flatten)]
    pub json: JsonFlag,
}

/// Show the end of what a worker's agent wrote to its standard error
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent worker logs w_0123456789
  subagent worker logs w_0123456789 --tail-bytes 1000000 --json")]
pub struct WorkerLogs {
    /// The worker's id
    #[arg(value_name = "WORKER_ID")]
    pub worker_id: String,
    /// How much of the end, in bytes
    #[arg(long, value_name = "N", default_value_t = 65_536, value_parser = super::numbers::count)]
    pub tail_bytes: u64,
    /// Which workspace.
    #[command(flatten)]
    pub cwd: CwdFlag,
    /// Which form of output.
    #[command(flatten)]
    pub json: JsonFlag,
}
