//! The config file as typed data. Pure; how it is read is in `file`, what is acceptable in `validate`.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde_json::{Map, Value};
use subagent_protocol::delegation::TaskLimits;
use subagent_protocol::state::OnRateLimit;

use crate::agents::Tier;
use crate::approvals::Approvals;
use crate::budgets::Budgets;
use crate::error::ConfigError;
use crate::hooks::FileHooks;
use crate::mcp::McpServer;
use crate::notify::Sink;
use crate::policy::Rule;
use crate::prices::Prices;
use crate::sandbox::{Choice, Profile};
use crate::session::SessionOptions;
use crate::worktrees::{Isolation, Worktrees};

/// The only backend kind there is: an agent that speaks the Agent Client Protocol on its stdin and stdout.
pub const ACP_STDIO: &str = "acp-stdio";
/// Role of a worker when neither the caller nor the config names one.
pub const DEFAULT_ROLE: &str = "default";

/// A whole config file. An absent file is `Config::default()`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Config {
    /// The agents that can be started, by name.
    pub launchers: BTreeMap<String, Launcher>,
    /// MCP servers for the agents of all launchers, by name.
    pub mcp_servers: BTreeMap<String, McpServer>,
    /// What agents may do without asking; none if the file says nothing of it.
    pub permissions: Option<Vec<Rule>>,
    /// How long questions of agents wait.
    pub approvals: Approvals,
    /// How much workers and controllers may use.
    pub budgets: Budgets,
    /// Whether agents may give tasks to others, and how many; none: only where somebody says so.
    pub delegation: Option<TaskLimits>,
    /// Whether workers without a label are named after their first message.
    pub titles: bool,
    /// Commands that run before or after what a worker does.
    pub hooks: FileHooks,
    /// Whom to notify of what. Only the user's own file counts.
    pub notify: Vec<Sink>,
    /// What tokens cost, for agents that do not report it. Only the user's own file counts.
    pub prices: Prices,
    /// How worktrees are made and landed.
    pub worktrees: Worktrees,
    /// Languages that hold for every role.
    pub role_defaults: RoleDefaults,
    /// What the manager should know about each role, by name.
    pub role_hints: BTreeMap<String, RoleHint>,
    /// Sandboxes, by name.
    pub sandboxes: BTreeMap<String, Profile>,
    /// What is taken when a command names no launcher or role.
    pub defaults: Defaults,
}

impl Config {
    /// The launcher of this name, or `LAUNCHER_NOT_FOUND`.
    pub fn launcher(&self, name: &str) -> Result<&Launcher, ConfigError> {
        self.launchers.get(name).ok_or_else(|| ConfigError::LauncherNotFound {
            name: name.to_owned(),
            known: self.launchers.keys().cloned().collect(),
        })
    }

    /// The hint for this role, or `ROLE_HINT_NOT_FOUND`.
    pub fn role_hint(&self, name: &str) -> Result<&RoleHint, ConfigError> {
        self.role_hints.get(name).ok_or_else(|| ConfigError::RoleHintNotFound {
            name: name.to_owned(),
            known: self.role_hints.keys().cloned().collect(),
        })
    }
}

/// How to start one kind of agent.
///
/// `Debug` shows the names of `env` alone: the values may be secrets, and debug output ends up in logs.
#[derive(Clone, PartialEq)]
pub struct Launcher {
    /// How to talk to it; any text is read, only [`ACP_STDIO`] can be started.
    pub backend_kind: String,
    /// The command line as written, never blank; see `launcher` for how it is taken apart.
    pub command: String,
    /// Arguments after those in `command`.
    pub args: Vec<String>,
    /// Variables that are set for the agent over what it inherits. May hold secrets.
    pub env: BTreeMap<String, String>,
    /// Deadlines of the agent.
    pub timeouts: Timeouts,
    /// The way to log in that is taken where nobody chooses one.
    pub auth_method: Option<String>,
    /// Whether the tools with which its agent gives tasks have a prefix, for one that gives them none.
    pub prefix_tools: bool,
    /// What is chosen of its sessions.
    pub options: SessionOptions,
    /// MCP servers for its agent, by name; they win over those of the whole config.
    pub mcp_servers: BTreeMap<String, McpServer>,
    /// After so long without an open turn its agent is ended, until it is needed again; `None` is never.
    pub idle_timeout: Option<Duration>,
    /// What happens when a turn fails for a rate limit; `None` is `park`.
    pub on_rate_limit: Option<OnRateLimit>,
    /// So many messages may wait for one of its workers.
    pub queue_limit: Option<u32>,
    /// Its models, by how good they are: what a definition of an agent may ask for.
    pub tiers: BTreeMap<Tier, String>,
    /// Where its agents work.
    pub isolation: Option<Isolation>,
    /// What its agent may reach; none: as `defaults` says.
    pub sandbox: Option<Choice>,
}

impl Launcher {
    /// A launcher that speaks ACP over stdio, with default deadlines.
    pub fn new(command: impl Into<String>) -> Self {
        Self {
            backend_kind: ACP_STDIO.to_owned(),
            command: command.into(),
            args: Vec::new(),
            env: BTreeMap::new(),
            timeouts: Timeouts::default(),
            auth_method: None,
            prefix_tools: false,
            options: SessionOptions::default(),
            mcp_servers: BTreeMap::new(),
            idle_timeout: None,
            on_rate_limit: None,
            queue_limit: None,
            tiers: BTreeMap::new(),
            isolation: None,
            sandbox: None,
        }
    }
}

impl fmt::Debug for Launcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.env.keys().collect();
        f.debug_struct("Launcher")
            .field("backend_kind", &self.backend_kind)
            .field("command", &self.command)
            .field("args", &self.args)
            .field("env", &names)
            .field("timeouts", &self.timeouts)
            .field("auth_method", &self.auth_method)
            .field("prefix_tools", &self.prefix_tools)
            .field("options", &self.options)
            .field("mcp_servers", &self.mcp_servers)
            .field("idle_timeout", &self.idle_timeout)
            .field("on_rate_limit", &self.on_rate_limit)
            .field("queue_limit", &self.queue_limit)
            .field("tiers", &self.tiers)
            .field("isolation", &self.isolation)
            .field("sandbox", &self.sandbox)
            .finish()
    }
}

/// Deadlines of one launcher.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// From the start of the process to a session; at least a second.
    pub startup: Duration,
    /// From the start of the process to its answer to `initialize`; `None` is as long as `startup`.
    pub initialize: Option<Duration>,
    /// One request for a session; `None` is as long as `startup`.
    pub session: Option<Duration>,
    /// Longest turn; `None` is no limit.
    pub turn: Option<Duration>,
    /// How long a cancelled turn may take to end by itself.
    pub cancel_grace: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            startup: Duration::from_secs(60),
            initialize: None,
            session: None,
            turn: None,
            cancel_grace: Duration::from_secs(10),
        }
    }
}

/// Languages that hold for every role without its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoleDefaults {
    /// Language in which the manager writes to workers.
    pub prompt_language: String,
    /// Language in which workers answer.
    pub response_language: String,
}

impl Default for RoleDefaults {
    fn default() -> Self {
        Self { prompt_language: "en".to_owned(), response_language: "same_as_manager".to_owned() }
    }
}

/// What the manager should know about one role.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RoleHint {
    /// Launcher to take for this role.
    pub preferred_launcher: Option<String>,
    /// Overrides [`RoleDefaults::prompt_language`].
    pub prompt_language: Option<String>,
    /// Overrides [`RoleDefaults::response_language`].
    pub response_language: Option<String>,
    /// When to delegate to this role, in free words.
    pub delegation_hint: Option<String>,
    /// Skills that a worker of this role should use.
    pub recommended_skills: Vec<String>,
}

/// What is taken when a command names nothing.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Defaults {
    /// Launcher for roles without a preferred one.
    pub launcher: Option<String>,
    /// Role of a worker that is started without one.
    pub role: Option<String>,
    /// Where agents work.
    pub isolation: Option<Isolation>,
    /// What agents of launchers may reach that do not say.
    pub sandbox: Option<Choice>,
    /// All other keys, as they were written.
    pub other: Map<String, Value>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_output_has_no_values_of_variables() {
        let mut launcher = Launcher::new("agent");
        launcher.env.insert("API_KEY".to_owned(), "sk-1".to_owned());
        let shown = format!("{launcher:?}");
        assert!(shown.contains("API_KEY") && !shown.contains("sk-1"), "{shown}");
    }
}
