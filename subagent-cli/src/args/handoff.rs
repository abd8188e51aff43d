//! Flags of `worker inspect`, `handoff`, `continue` and `restart`.

use std::path::PathBuf;

use clap::Args;

use super::{ConfigFlag, CwdFlag, JsonFlag, path};

/// Look into a worker: its state, open questions and last events
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent worker inspect w_0123456789 --tail 5 --json
  subagent worker inspect w_0123456789 --event-type turn.failed \\
      --event-type progress.update:plan --since 2026-11-21T20:00:00Z")]
pub struct WorkerInspect {
    /// The worker's id
    #[arg(value_name = "WORKER_ID")]
    pub worker_id: String,
    /// How many of the last events that fit
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub events_limit: u32,
    /// The same; wins over --events-limit
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub tail: Option<u32>,
    /// Only events of this time or later, ISO 8601 (without an offset: UTC)
    #[arg(long, value_name = "TIME")]
    pub since: Option<String>,
    /// Only events of this turn
    #[arg(long, value_name = "TURN_ID")]
    pub turn_id: Option<String>,
    /// Only events of this type, or progress.update:KIND; can be repeated
    #[arg(long, value_name = "TYPE")]
    pub event_type: Vec<String>,
    /// Which workspace.
    #[command(flatten)]
    pub cwd: CwdFlag,
    /// Which form of output.
    #[command(flatten)]
    pub json: JsonFlag,
}

/// Write down what a worker did, for another one to go on
///
/// Makes handoff.md (for the next worker, or a person) and checkpoint.json (for
/// programs) of the worker's messages, plan, tool calls and of git's status of
/// its folder. The worker may be in any state and goes on.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  subagent worker handoff --worker-id w_0123456789")]
pub struct WorkerHandoff {
    /// The worker's id
    #[arg(long, value_name = "WORKER_ID")]
    pub worker_id: String,
    /// Below which folder to write [default: the state directory]
    #[arg(long, value_name = "PATH", value_parser = path())]
    pub handoffs_dir: Option<PathBuf>,
    /// Which workspace.
    #[command(flatten)]
    pub cwd: CwdFlag,
    /// Which form of output.
    #[command(flatten)]
    pub json: JsonFlag,
}

/// Start a worker that goes on with what another one has begun
///
/// Makes a handoff of the worker (or takes the last one, if nothing happened
/// since), starts a worker like it, and tells that one to read the handoff. The
/// launcher may be another one: a different agent goes on.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent worker continue --from-worker w_0123456789
  subagent worker continue --from-worker w_0123456789 --launcher gemini
  subagent worker continue --from-handoff ./handoff.md --json")]
pub struct WorkerContinue {
    /// The worker to go on from
    #[arg(long, value_name = "WORKER_ID")]
    pub from_worker: Option<String>,
    /// The handoff.md to go on from; a checkpoint.json beside it is used
    #[arg(long, value_name = "PATH", value_parser = path())]
    pub from_handoff: Option<PathBuf>,
    /// Which launcher of the config file [default: the same]
    #[arg(long, value_name = "NAME")]
    pub launcher: Option<String>,
    /// A role, free text [default: the same]
    #[arg(long)]
    pub role: Option<String>,
    /// Where the agent works, and whose workspace it belongs to [default: the same]
    #[arg(long, value_name = "PATH", value_parser = path())]
    pub cwd: Option<PathBuf>,
    /// A label for people [default: continued-from-WORKER_ID]
    #[arg(long)]
    pub label: Option<String>,
    /// Whose worker it will be [default: the same]
    #[arg(long, value_name = "ID")]
    pub controller_id: Option<String>,
    /// Below which folder to write a handoff [default: the state directory]
    #[arg(long, value_name = "PATH", value_parser = path())]
    pub handoffs_dir: Option<PathBuf>,
    /// Let a simulation take the first turn instead of the agent
    #[arg(id = "debug_mode", long = "debug-mode", overrides_with = "no_debug_mode")]
    pub debug_mode: bool,
    /// Let the agent take it (the default)
    #[arg(id = "no_debug_mode", long = "no-debug-mode", overrides_with = "debug_mode")]
    pub no_debug_mode: bool,
    /// Which config file.
    #[command(flatten)]
    pub config: ConfigFlag,
    /// Which form of output.
    #[command(flatten)]
    pub json: JsonFlag,
}

/// Give a worker another agent process, on the same session
///
/// Ends the process in order and starts another one. A worker whose agent could
/// not be started is tried again. If a turn is open, the command fails unless
/// --force is given, which cancels the turn.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent worker restart w_0123456789
  subagent worker restart w_0123456789 --force --json")]
pub struct WorkerRestart {
    /// The worker's id
    #[arg(value_name = "WORKER_ID")]
    pub worker_id: String,
    /// Also if a turn is open; it is canceled
    #[arg(long)]
    pub force: bool,
    /// Which workspace.
    #[command(flatten)]
    pub cwd: CwdFlag,
    /// Which form of output.
    #[command(flatten)]
    pub json: JsonFlag,
}
