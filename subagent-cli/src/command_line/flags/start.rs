//! What an agent is started with.

use std::path::PathBuf;

use clap::Args;
use subagent_protocol::api::WorktreeChoice;

use super::{ConfigFlag, path};
use crate::command_line::flags::budget::BudgetFlags;
use crate::command_line::numbers::idle_timeout;

/// What a worker is started with, of every command that starts one.
#[derive(Debug, Default, Args)]
pub(crate) struct StartFlags {
    /// The launcher of the agent [default: the role's, else the config's]
    #[arg(long, value_name = "NAME")]
    pub(crate) launcher: Option<String>,
    /// A role, free text [default: the config's, else "default"]
    #[arg(long)]
    pub(crate) role: Option<String>,
    /// The folder where the agent works [default: .]
    ///
    /// The worker belongs to the workspace of this folder.
    #[arg(long, value_name = "PATH", value_parser = path())]
    pub(crate) cwd: Option<PathBuf>,
    /// Name of the worker [default: launcher and number, as codex-1]
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// A label for people [default: worker]
    #[arg(long)]
    pub(crate) label: Option<String>,
    /// Resume this session of the agent (see session list), or fail
    #[arg(long, value_name = "SESSION")]
    pub(crate) resume: Option<String>,
    /// The controller that owns the worker [default: the workspace's]
    #[arg(long, value_name = "ID")]
    pub(crate) controller_id: Option<String>,
    #[command(flatten)]
    pub(crate) options: OptionFlags,
    /// A file like .mcp.json with MCP servers for the agent, besides those of the config
    #[arg(long, value_name = "PATH", value_parser = path())]
    pub(crate) mcp_config: Option<PathBuf>,
    /// Another folder that the agent may work in; can be repeated
    #[arg(long, value_name = "PATH")]
    pub(crate) add_dir: Vec<PathBuf>,
    /// A tag that -l finds the worker by; can be repeated
    #[arg(long, value_name = "NAME=VALUE")]
    pub(crate) tag: Vec<String>,
    #[command(flatten)]
    pub(crate) rules: RuleFlags,
    /// How long questions wait for an answer: 10m, 2h, 90s or never
    /// [default: the config's, else never]
    #[arg(long, value_name = "TIME", value_parser = idle_timeout)]
    pub(crate) approval_timeout: Option<u64>,
    /// After that time: deny the question (the default), or cancel the turn
    #[arg(long, value_name = "deny|cancel")]
    pub(crate) on_approval_timeout: Option<String>,
    #[command(flatten)]
    pub(crate) budget: BudgetFlags,
    #[command(flatten)]
    pub(crate) agent: AgentFlags,
    /// Let it give tasks to other agents [default: the config's or definition's]
    #[arg(long)]
    pub(crate) delegate: bool,
    #[command(flatten)]
    pub(crate) worktree: WorktreeFlags,
    /// What it may reach: a sandbox of the config, shared_ro, isolated, shared_rw or none
    /// [default: the launcher's, else the config's]
    #[arg(long, value_name = "NAME")]
    pub(crate) sandbox: Option<String>,
    /// Where it runs: a placement of the config, or local
    /// [default: the launcher's, else the config's]
    #[arg(long, value_name = "NAME")]
    pub(crate) on: Option<String>,
    #[command(flatten)]
    pub(crate) config: ConfigFlag,
}

/// `--mode`, `--model`, `--set`, `--idle-timeout` and `--on-rate-limit`.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct OptionFlags {
    /// A session mode that the agent offers
    #[arg(long, value_name = "MODE")]
    pub(crate) mode: Option<String>,
    /// A model that the agent offers
    #[arg(long, value_name = "MODEL")]
    pub(crate) model: Option<String>,
    /// A config option of the agent and its value; can be repeated
    #[arg(id = "set", long = "set", value_name = "ID=VALUE")]
    pub(crate) set: Vec<String>,
    /// End an idle agent after this time until it is needed: 30m, 12h, 90s or never
    #[arg(long, value_name = "TIME", value_parser = idle_timeout)]
    pub(crate) idle_timeout: Option<u64>,
    /// At a rate limit of the model's provider: park the worker until the reset (default), or fail
    #[arg(long, value_name = "WHAT", value_parser = subagent_config::rate_limits::ON_RATE_LIMIT)]
    pub(crate) on_rate_limit: Option<String>,
}

/// `--agent` and `--agents`.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct AgentFlags {
    /// The definition of the agent (see agent list)
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Option<String>,
    /// More definitions: a JSON object of names and definitions with a `prompt`
    #[arg(long, value_name = "JSON")]
    pub(crate) agents: Option<String>,
}

/// `--allow`, `--ask` and `--deny`.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct RuleFlags {
    /// Allow without asking: TOOL or TOOL(PATTERN); can be repeated
    #[arg(long, value_name = "RULE")]
    pub(crate) allow: Vec<String>,
    /// Ask, also if the config allows it; can be repeated
    #[arg(long, value_name = "RULE")]
    pub(crate) ask: Vec<String>,
    /// Deny without asking; can be repeated
    #[arg(long, value_name = "RULE")]
    pub(crate) deny: Vec<String>,
}

impl RuleFlags {
    /// Whether none was given.
    pub(crate) fn is_empty(&self) -> bool {
        let Self { allow, ask, deny } = self;
        [allow, ask, deny].iter().all(|rules| rules.is_empty())
    }
}

impl From<RuleFlags> for subagent_config::start::policy::Flags {
    fn from(RuleFlags { allow, ask, deny }: RuleFlags) -> Self {
        Self { allow, ask, deny }
    }
}

/// `--worktree` and what belongs to it.
#[derive(Debug, Default, Args)]
pub(crate) struct WorktreeFlags {
    /// Work in a git worktree of its own, on this branch
    /// [default: subagent/NAME]
    #[arg(long, value_name = "BRANCH", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    pub(crate) worktree: Option<String>,
    /// Begin the branch of the worktree at this commit [default: HEAD]
    #[arg(long, value_name = "REF")]
    pub(crate) base: Option<String>,
    /// Take uncommitted and untracked files along into the worktree
    #[arg(long)]
    pub(crate) with_changes: bool,
}

impl WorktreeFlags {
    /// The worktree that was asked for.
    pub(crate) fn choice(self) -> Option<WorktreeChoice> {
        let Self { worktree, base, with_changes } = self;
        let wanted = worktree.is_some() || base.is_some() || with_changes;
        let branch = worktree.filter(|branch| !branch.trim().is_empty());
        wanted.then_some(WorktreeChoice { branch, base, with_changes })
    }
}
