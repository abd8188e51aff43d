//! Flags of `worker`, but for `handoff` and `continue`.

use std::path::PathBuf;

use clap::{ArgGroup, Args};

use super::{ConfigFlag, CwdFlag, JsonFlag, SelectorFlag, path};

/// The workers that a command shows, and what all such commands take.
///
/// The first one has an argument of its own: the contract's errors name it alone.
#[derive(Debug, Args)]
pub struct ShownWorkers {
    /// The worker: its name, its id, the beginning of its id, or @last; more can follow
    #[arg(value_name = "WORKER_ID", required_unless_present = "worker_id", conflicts_with = "worker_id")]
    worker: Option<String>,
    /// More workers
    // Hidden, because clap puts it into the usage of errors.
    #[arg(value_name = "WORKER", hide = true)]
    others: Vec<String>,
    /// The same as WORKER
    #[arg(long, value_name = "WORKER", hide = true)]
    worker_id: Option<String>,
    /// `--cwd`, a folder of the workspace.
    #[command(flatten)]
    pub cwd: CwdFlag,
    /// Which form of output.
    #[command(flatten)]
    pub json: JsonFlag,
}

impl ShownWorkers {
    /// Returns the workers as they were typed, at least one.
    #[must_use]
    pub fn all(&self) -> Vec<String> {
        let first = self.worker.as_ref().or(self.worker_id.as_ref());
        first.into_iter().chain(&self.others).cloned().collect()
    }
}

/// Workers that were typed, in either form.
#[derive(Debug, Args)]
pub struct Addresses {
    /// The workers: names, ids, beginnings of ids, or @last
    #[arg(value_name = "WORKER", conflicts_with = "worker_id")]
    workers: Vec<String>,
    /// The same as WORKER
    #[arg(long, value_name = "WORKER", hide = true)]
    worker_id: Vec<String>,
}

impl Addresses {
    /// The workers as they were typed.
    #[must_use]
    pub fn all(&self) -> &[String] {
        if self.workers.is_empty() { &self.worker_id } else { &self.workers }
    }
}

/// The workers that a command is about, and what all such commands take.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("which").required(true).args(["workers", "worker_id"])))]
pub struct SeveralWorkers {
    /// The addresses of the workers: names, ids, prefixes of ids, or `@last`.
    #[command(flatten)]
    pub workers: Addresses,
    /// `--cwd`, a folder of the workspace.
    #[command(flatten)]
    pub cwd: CwdFlag,
    /// Which form of output.
    #[command(flatten)]
    pub json: JsonFlag,
}

/// What a worker is started with, of every command that starts one.
#[derive(Debug, Default, Args)]
pub struct StartFlags {
    /// The launcher of the agent [default: the role's, else the config's]
    #[arg(long, value_name = "NAME")]
    pub launcher: Option<String>,
    /// A role, free text [default: the config's, else "default"]
    #[arg(long)]
    pub role: Option<String>,
    /// The folder where the agent works [default: .]
    ///
    /// The worker belongs to the workspace of this folder.
    #[arg(long, value_name = "PATH", value_parser = path())]
    pub cwd: Option<PathBuf>,
    /// Name of the worker [default: launcher and number, as codex-1]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// A label for people [default: worker]
    #[arg(long)]
    pub label: Option<String>,
    /// Resume this session of the agent (see session list), or fail
    #[arg(long, value_name = "SESSION")]
    pub resume: Option<String>,
    /// The controller that owns the worker [default: the workspace's]
    #[arg(long, value_name = "ID")]
    pub controller_id: Option<String>,
    /// What is chosen of the agent's session.
    #[command(flatten)]
    pub options: super::options::OptionFlags,
    /// A file like .mcp.json with MCP servers for the agent, besides those of the config
    #[arg(long, value_name = "PATH", value_parser = path())]
    pub mcp_config: Option<PathBuf>,
    /// Another folder that the agent may work in; can be repeated
    #[arg(long, value_name = "PATH")]
    pub add_dir: Vec<PathBuf>,
    /// A tag that -l finds the worker by; can be repeated
    #[arg(long, value_name = "NAME=VALUE")]
    pub tag: Vec<String>,
    /// What it may do, besides what the config says.
    #[command(flatten)]
    pub rules: super::policy::RuleFlags,
    /// How long questions wait for an answer: 10m, 2h, 90s or never
    /// [default: the config's, else never]
    #[arg(long, value_name = "TIME", value_parser = super::numbers::idle_timeout)]
    pub approval_timeout: Option<u64>,
    /// After that time: deny the question (the default), or cancel the turn
    #[arg(long, value_name = "deny|cancel")]
    pub on_approval_timeout: Option<String>,
    /// What it may use; what is not named is the config's.
    #[command(flatten)]
    pub budget: super::budgets::BudgetFlags,
    /// Which definition it has.
    #[command(flatten)]
    pub agent: super::definitions::AgentFlags,
    /// Let it give tasks to other agents [default: the config's or definition's]
    #[arg(long)]
    pub delegate: bool,
    /// `--worktree` and the flags that belong to it.
    #[command(flatten)]
    pub worktree: super::worktrees::WorktreeFlags,
    /// What it may reach: a sandbox of the config, shared_ro, isolated, shared_rw or none
    /// [default: the launcher's, else the config's]
    #[arg(long, value_name = "NAME")]
    pub sandbox: Option<String>,
    /// `--config`, the path of the config file.
    #[command(flatten)]
    pub config: ConfigFlag,
}

/// Start an agent as a worker
///
/// The agent inherits PATH, variables, file mode mask and descriptor limit of this command. It runs
/// until it is stopped, even if this command, its shell or the daemon ends.
///
/// If you are an agent in a sandbox, ask for outside-sandbox execution of this
/// command: the worker needs the network and files that its own agent needs.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent worker start
  subagent worker start codex --name auth
  subagent worker start --role reviewer --cwd ~/src/thing --json
  echo '{\"launcher\": \"codex\", \"label\": \"fixer\"}' |
      subagent worker start --input -")]
pub struct WorkerStart {
    /// A launcher, or a definition of an agent
    #[arg(value_name = "AGENT", conflicts_with_all = ["launcher", "agent"])]
    pub launcher_or_agent: Option<String>,
    /// What it is started with.
    #[command(flatten)]
    pub start: StartFlags,
    /// Start no agent until a message needs one
    #[arg(long, overrides_with = "no_debug_mode")]
    pub debug_mode: bool,
    /// Start the agent (the default)
    #[arg(long, overrides_with = "debug_mode")]
    pub no_debug_mode: bool,
    /// Read launcher, role, cwd, label, ... from a JSON file, - for stdin
    #[arg(long, value_name = "PATH", value_parser = path())]
    pub input: Option<PathBuf>,
    /// Which form of output.
    #[command(flatten)]
    pub json: JsonFlag,
}

/// List workers, the newest first
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent worker list
  subagent worker list --controller-id ctl_0123456789 --json
  subagent worker list -l job=review
  subagent worker list --all-workspaces")]
pub struct WorkerList {
    /// Only workers of this controller
    #[arg(long, value_name = "ID")]
    pub controller_id: Option<String>,
    /// `-l`, the tags that select workers.
    #[command(flatten)]
    pub selector: SelectorFlag,
    /// The workers of all daemons that run (see daemon list)
    #[arg(long, conflicts_with = "cwd")]
    pub all_workspaces: bool,
    /// Also those of tasks that are not inspectable
    #[arg(long)]
    pub all: bool,
    /// `--cwd`, a folder of the workspace.
    #[command(flatten)]
    pub cwd: CwdFlag,
    /// Which form of output.
    #[command(flatten)]
    pub json: JsonFlag,
}

/// Show workers
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent worker show codex-1 --json
  subagent worker show codex-1 codex-2")]
pub struct WorkerShow {
    /// The addresses of the workers, and their workspace.
    #[command(flatten)]
    pub workers: ShownWorkers,
}

/// Stop a worker and every process of it
///
/// An open turn is canceled first. Success means that no process of the worker is left. A worker that is stopped
/// already stays as it is.
#[derive(Debug, Args)]
#[command(
    override_usage = "subagent worker stop [OPTIONS] <WORKER>...",
    after_help = "\
Examples:
  subagent worker stop codex-1
  subagent worker stop -l job=review"
)]
#[command(group(ArgGroup::new("which").required(true).args(["workers", "worker_id", "selector"])))]
pub struct WorkerStop {
    /// The addresses of the workers.
    #[command(flatten)]
    pub workers: Addresses,
    /// Which tags; all workers that have them are stopped.
    #[command(flatten)]
    pub selector: SelectorFlag,
    /// Taken for older scripts; a worker can be stopped in every state
    #[arg(long)]
    pub force: bool,
    /// `--cwd`, a folder of the workspace.
    #[command(flatten)]
    pub cwd: CwdFlag,
    /// Which form of output.
    #[command(flatten)]
    pub json: JsonFlag,
}

/// Show the last log lines of a worker's agent
///
/// That is its standard error, and output that is no message of the protocol.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent worker logs codex-1
  subagent worker logs codex-1 --tail-bytes 1000000 --json")]
pub struct WorkerLogs {
    /// How much of the end, in bytes
    #[arg(long, value_name = "N", default_value_t = 65_536, value_parser = super::numbers::count)]
    pub tail_bytes: u64,
    /// The addresses of the workers, and their workspace.
    #[command(flatten)]
    pub several: SeveralWorkers,
}

/// Look into workers: their state, open questions and last events
#[derive(Debug, Args)]
#[command(
    override_usage = "subagent worker inspect [OPTIONS] <WORKER_ID>",
    after_help = "\
Examples:
  subagent worker inspect codex-1 --tail 5 --json
  subagent worker inspect codex-1 codex-2
  subagent worker inspect codex-1 --event-type turn.failed \\
      --event-type progress.update:plan --since 2026-11-21T20:00:00Z"
)]
pub struct WorkerInspect {
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
    /// The addresses of the workers, and their workspace.
    #[command(flatten)]
    pub workers: ShownWorkers,
}

/// End the parking of a worker, so that its queue goes on now
///
/// A worker whose turn fails for a rate limit of the model's provider is parked: messages wait until the time of reset.
/// A paused queue goes on as well. A worker that is neither parked nor paused is left as it is.
#[derive(Debug, Args)]
#[command(mut_args = super::any_value, after_help = "\
Examples:
  subagent worker resume codex-1
  subagent worker resume codex-1 codex-2 --json")]
pub struct WorkerResume {
    /// The addresses of the workers, and their workspace.
    #[command(flatten)]
    pub several: SeveralWorkers,
    /// `--config`, the path of the config file.
    #[command(flatten)]
    pub config: ConfigFlag,
}

/// Give a worker another agent process, on the same session
///
/// Ends the process in order and starts another one. A worker whose agent could
/// not be started is tried again. If a turn is open, the command fails unless
/// --force is given, which cancels the turn.
#[derive(Debug, Args)]
#[command(mut_args = super::any_value, after_help = "\
Examples:
  subagent worker restart codex-1
  subagent worker restart codex-1 --force --json")]
pub struct WorkerRestart {
    /// Also if a turn is open; it is canceled
    #[arg(long)]
    pub force: bool,
    /// The addresses of the workers, and their workspace.
    #[command(flatten)]
    pub several: SeveralWorkers,
    /// `--config`, the path of the config file.
    #[command(flatten)]
    pub config: ConfigFlag,
}
