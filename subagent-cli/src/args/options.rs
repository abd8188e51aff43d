//! Flags that choose options of an agent's session, and `worker set`.

use std::path::PathBuf;

use clap::Args;

use super::{CwdFlag, JsonFlag, path};

/// `--mode`, `--model`, `--set`, `--idle-timeout` and `--on-rate-limit`.
#[derive(Debug, Clone, Default, Args)]
pub struct OptionFlags {
    /// A session mode that the agent offers
    #[arg(long, value_name = "MODE")]
    pub mode: Option<String>,
    /// A model that the agent offers
    #[arg(long, value_name = "MODEL")]
    pub model: Option<String>,
    /// A config option of the agent and its value; can be repeated
    #[arg(id = "set", long = "set", value_name = "ID=VALUE")]
    pub set: Vec<String>,
    /// End an idle agent after this time until it is needed: 30m, 12h, 90s or never
    #[arg(long, value_name = "TIME", value_parser = super::numbers::idle_timeout)]
    pub idle_timeout: Option<u64>,
    /// At a rate limit of the model's provider: park the worker until the reset (default), or fail
    #[arg(long, value_name = "WHAT", value_parser = subagent_config::rate_limits::ON_RATE_LIMIT)]
    pub on_rate_limit: Option<String>,
}

/// Choose mode, model and config options of a worker's agent, and its budget
///
/// They count now, also while a turn is open, and for every agent that is started for this worker later. If no agent
/// runs, the next one gets them when it starts: `applied` is false. What is not chosen is the agent's own business;
/// `--set ID=` makes it that again. An agent that was ended because it was idle is started for it; `--idle-timeout`,
/// `--on-rate-limit` and limits alone start none.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent worker set codex-1 --model opus
  subagent worker set codex-1 --mode plan --set effort=high
  subagent worker set codex-1 --max-turns 20 --max-cost none
  subagent worker set codex-1 --name auth
  echo '{\"workerId\": \"w_0123456789\", \"configOptions\": {\"fast\": true}}' |
      subagent worker set --input - --json")]
pub struct WorkerSet {
    /// The workers: names, ids, beginnings of ids, or @last
    #[arg(value_name = "WORKER", conflicts_with = "worker_id")]
    pub workers: Vec<String>,
    /// The same as WORKER
    #[arg(long, value_name = "WORKER")]
    pub worker_id: Option<String>,
    /// Rename the worker
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// The options to set, such as `--mode` and `--model`.
    #[command(flatten)]
    pub options: OptionFlags,
    /// What it may use from now on.
    #[command(flatten)]
    pub budget: super::budgets::BudgetFlags,
    /// Read workerId, name, mode, model, configOptions, idleTimeout, onRateLimit, budget from a JSON file, - for stdin
    #[arg(long, value_name = "PATH", value_parser = path())]
    pub input: Option<PathBuf>,
    /// `--cwd`, a folder of the workspace.
    #[command(flatten)]
    pub cwd: CwdFlag,
    /// Which form of output.
    #[command(flatten)]
    pub json: JsonFlag,
}
