//! Flags of `worker handoff` and `worker continue`.

use std::path::PathBuf;

use clap::Args;

use super::policy::RuleFlags;
use super::workers::SeveralWorkers;
use super::{ConfigFlag, CwdFlag, JsonFlag, path};

/// Write down what a worker did, for another one to go on
///
/// Makes handoff.md (for the next worker, or a person) and checkpoint.json (for
/// programs) of the worker's messages, plan, tool calls and of git's status of
/// its folder. The worker may be in any state and goes on.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  subagent worker handoff codex-1")]
pub struct WorkerHandoff {
    /// Below which folder to write [default: the state directory]
    #[arg(long, value_name = "PATH", value_parser = path())]
    pub handoffs_dir: Option<PathBuf>,
    /// With a section that an agent has written (see `summary`)
    #[arg(long)]
    pub summary: bool,
    /// The addresses of the workers, and their workspace.
    #[command(flatten)]
    pub several: SeveralWorkers,
}

/// Have an agent sum up what a worker did
///
/// A task of the agent `summary` reads what was asked, said and done, as in a
/// handoff, with the fast model of the launcher if it has one. It has no tools.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent summary codex-1
  subagent summary codex-1 --launcher claude --json")]
pub struct Summary {
    /// The worker: its name, its id, the beginning of its id, or @last
    #[arg(value_name = "WORKER")]
    pub worker_id: String,
    /// Which launcher sums up [default: the worker's]
    #[arg(long, value_name = "NAME")]
    pub launcher: Option<String>,
    /// `--cwd`, a folder of the workspace.
    #[command(flatten)]
    pub cwd: CwdFlag,
    /// `--config`, the path of the config file.
    #[command(flatten)]
    pub config: ConfigFlag,
    /// Which form of output.
    #[command(flatten)]
    pub json: JsonFlag,
}

/// Start a worker that goes on with what another one has begun
///
/// Makes a handoff of the worker (or takes the last one, if nothing happened
/// since), starts a worker like it, and asks that one to read the handoff. The
/// launcher may be another one: a different agent goes on.
///
/// The rules of --allow, --ask and --deny that the worker was started with
/// are the new one's too, unless any is given here; those of the config are
/// read anew. A handoff file names no rules.
#[derive(Debug, Default, Args)]
#[command(after_help = "\
Examples:
  subagent worker continue --from-worker w_0123456789
  subagent worker continue --from-worker w_0123456789 --launcher gemini
  subagent worker continue --from-handoff ./handoff.md --json")]
pub struct WorkerContinue {
    /// The worker to go on from
    #[arg(long, value_name = "WORKER")]
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
    /// What it may do, besides what the config says, instead of what the worker before might.
    #[command(flatten)]
    pub rules: RuleFlags,
    /// Let a simulation take the first turn instead of the agent
    #[arg(id = "debug_mode", long = "debug-mode", overrides_with = "no_debug_mode")]
    pub debug_mode: bool,
    /// Let the agent take it (the default)
    #[arg(id = "no_debug_mode", long = "no-debug-mode", overrides_with = "debug_mode")]
    pub no_debug_mode: bool,
    /// `--config`, the path of the config file.
    #[command(flatten)]
    pub config: ConfigFlag,
    /// Which form of output.
    #[command(flatten)]
    pub json: JsonFlag,
}
