//! The config file as typed data. Pure; `file` reads it, and `validate` checks it.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde_json::{Map, Value};
use subagent_protocol::delegation::TaskLimits;
use subagent_protocol::placement::Placement;
use subagent_protocol::state::OnRateLimit;

use crate::agents::Tier;
use crate::approvals::Approvals;
use crate::budgets::DefaultBudgets;
use crate::declared::{DeclaredSchedules, DeclaredTriggers};
use crate::error::ConfigError;
use crate::hooks::FileHooks;
use crate::hosts::DaemonHosts;
use crate::mcp::McpServer;
use crate::notify::NotificationSink;
use crate::policy::Rule;
use crate::prices::Prices;
use crate::sandbox::{Profile, SandboxChoice};
use crate::session::SessionOptions;
use crate::worktrees::{Isolation, Worktrees};

/// The only backend kind: an agent that speaks the Agent Client Protocol over stdin and stdout.
pub const ACP_STDIO: &str = "acp-stdio";
/// Role of a worker when neither the caller nor the config names one.
pub const DEFAULT_ROLE: &str = "default";

/// A complete config. An absent file is `Config::default()`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Config {
    /// The launchers by name.
    pub launchers: BTreeMap<String, Launcher>,
    /// MCP servers for the agents of all launchers, by name.
    pub mcp_servers: BTreeMap<String, McpServer>,
    /// The permission rules; `None` if the file has no `permissions`.
    pub permissions: Option<Vec<Rule>>,
    /// Timeouts for permission requests and other questions.
    pub approvals: Approvals,
    /// Usage limits of workers and controllers.
    pub budgets: DefaultBudgets,
    /// Limits of delegation; `None` if workers may delegate only where a definition or a command allows it.
    pub delegation: Option<TaskLimits>,
    /// Whether workers without a label get a title from their first message.
    pub titles: bool,
    /// Commands that run before or after actions of a worker.
    pub hooks: FileHooks,
    /// Notification targets. Only those of the user file count.
    pub notify: Vec<NotificationSink>,
    /// Work at certain times. Only that of the user file counts.
    pub schedules: DeclaredSchedules,
    /// Work on events. Only that of the user file counts.
    pub triggers: DeclaredTriggers,
    /// Token prices for agents that report no cost. Only those of the user file count.
    pub prices: Prices,
    /// How worktrees are created and merged back.
    pub worktrees: Worktrees,
    /// Default languages of all roles.
    pub role_defaults: RoleDefaults,
    /// The hints for the manager by role.
    pub role_hints: BTreeMap<String, RoleHint>,
    /// The sandbox profiles by name.
    pub sandboxes: BTreeMap<String, Profile>,
    /// Other machines where workers run, by name. Only those of the user file count.
    pub placements: BTreeMap<String, Placement>,
    /// Hosts whose daemons commands can use, by name. Only those of the user file count.
    pub hosts: DaemonHosts,
    /// The defaults for commands that name no launcher or role.
    pub defaults: Defaults,
}

impl Config {
    /// Returns the launcher of this name, or `LAUNCHER_NOT_FOUND`.
    pub fn launcher(&self, name: &str) -> Result<&Launcher, ConfigError> {
        self.launchers.get(name).ok_or_else(|| ConfigError::LauncherNotFound {
            name: name.to_owned(),
            known: self.launchers.keys().cloned().collect(),
        })
    }

    /// Returns the hint for this role, or `ROLE_HINT_NOT_FOUND`.
    pub fn role_hint(&self, name: &str) -> Result<&RoleHint, ConfigError> {
        self.role_hints.get(name).ok_or_else(|| ConfigError::RoleHintNotFound {
            name: name.to_owned(),
            known: self.role_hints.keys().cloned().collect(),
        })
    }
}

/// How to start one kind of agent.
///
/// `Debug` shows only the names of `env`: values may be secrets, and debug output goes to logs.
#[derive(Clone, PartialEq)]
pub struct Launcher {
    /// The protocol of the agent. Any text is accepted; only [`ACP_STDIO`] can be started.
    pub backend_kind: String,
    /// The command line as written, never blank; `launcher` splits it.
    pub command: String,
    /// Arguments after those in `command`.
    pub args: Vec<String>,
    /// Variables that override inherited ones. Values may be secrets.
    pub env: BTreeMap<String, String>,
    /// Timeouts of the agent.
    pub timeouts: LauncherTimeouts,
    /// The default authentication method.
    pub auth_method: Option<String>,
    /// Whether to prefix the names of the task tools, for an agent that adds no prefix itself.
    pub prefix_tools: bool,
    /// Session options such as model and mode.
    pub options: SessionOptions,
    /// MCP servers of the agent by name; they override those of the config.
    pub mcp_servers: BTreeMap<String, McpServer>,
    /// Idle time without an open turn after which the agent is stopped; `None` means never.
    pub idle_timeout: Option<Duration>,
    /// The action when a turn hits a rate limit; `None` means `park`.
    pub on_rate_limit: Option<OnRateLimit>,
    /// Maximum number of queued messages per worker.
    pub queue_limit: Option<u32>,
    /// Models by tier, for agent definitions.
    pub tiers: BTreeMap<Tier, String>,
    /// The working folder: shared, or a worktree.
    pub isolation: Option<Isolation>,
    /// The sandbox; `None` uses the one of `defaults`.
    pub sandbox: Option<SandboxChoice>,
    /// Name of the placement; `None` uses the one of `defaults`.
    pub placement: Option<String>,
}

impl Launcher {
    /// Creates a launcher for ACP over stdio with default timeouts.
    pub fn new(command: impl Into<String>) -> Self {
        Self {
            backend_kind: ACP_STDIO.to_owned(),
            command: command.into(),
            args: Vec::new(),
            env: BTreeMap::new(),
            timeouts: LauncherTimeouts::default(),
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
            placement: None,
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
            .field("placement", &self.placement)
            .finish()
    }
}

/// Timeouts of one launcher.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LauncherTimeouts {
    /// From process start to the session; at least one second.
    pub startup: Duration,
    /// From process start to the response to `initialize`; `None` equals `startup`.
    pub initialize: Option<Duration>,
    /// One request for a session; `None` equals `startup`.
    pub session: Option<Duration>,
    /// Maximum duration of a turn; `None` is unlimited.
    pub turn: Option<Duration>,
    /// Time after which a canceled turn that has not ended is aborted.
    pub cancel_grace: Duration,
}

impl Default for LauncherTimeouts {
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

/// Languages of all roles without their own.
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

/// The manager's hint for one role.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RoleHint {
    /// The launcher for this role.
    pub preferred_launcher: Option<String>,
    /// Language for this role instead of [`RoleDefaults::prompt_language`].
    pub prompt_language: Option<String>,
    /// Language for this role instead of [`RoleDefaults::response_language`].
    pub response_language: Option<String>,
    /// When to delegate to this role, as free text.
    pub delegation_hint: Option<String>,
    /// Skills that a worker of this role should use.
    pub recommended_skills: Vec<String>,
}

/// Defaults for commands without a launcher or role.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Defaults {
    /// The launcher for roles without a preferred one.
    pub launcher: Option<String>,
    /// The role of a worker that is started without one.
    pub role: Option<String>,
    /// The working folder: shared, or a worktree.
    pub isolation: Option<Isolation>,
    /// The sandbox of launchers without their own.
    pub sandbox: Option<SandboxChoice>,
    /// Name of the placement of launchers without their own.
    pub placement: Option<String>,
    /// All other keys as written.
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
