//! Agent definitions as files: Markdown with YAML front matter for purpose, permissions and prompt.
//! Files are untrusted: all sizes are limited, and a bad file becomes a [`DefinitionProblem`]. The
//! module does not know workers and must not start programs. [`read`] is pure.

mod builtin;
mod catalog;
mod folder;
mod front;
pub(crate) mod keys;
mod lists;
mod problem;
mod read;
pub mod skills;

use std::path::PathBuf;

use serde_json::{Map, Value};

use crate::hooks::FileHooks;
use crate::mcp::McpServer;
use crate::memory::MemorySettings;
use crate::policy::{Rule, RuleAction};
use crate::sandbox::Profile;
use crate::worktrees::Isolation;

pub use catalog::{Catalog, CatalogEntry, GivenAgents, ShadowedDefinition, UnreadableDefinition};
pub use problem::{DefinitionProblem, Severity};
pub use read::{Reading, read};

/// Maximum size of a definition file in bytes, because the file becomes part of a prompt.
pub const MAX_BYTES: usize = 256 * 1024;
/// Maximum length of a name in characters.
pub const MAX_NAME_CHARS: usize = 64;

/// Whether a definition can have this name. Names are parts of paths, rules and prompts.
#[must_use]
pub fn is_name(name: &str) -> bool {
    let fits = name.chars().all(|char| char.is_alphanumeric() || char == '-');
    fits && !name.is_empty() && name.chars().count() <= MAX_NAME_CHARS
}

/// Reads a tool as a rule; `Bash(git:*)` becomes `Bash(git *)`.
///
/// # Errors
/// The reason why the text is not a rule.
pub fn tool(name: &str, action: RuleAction) -> Result<Rule, String> {
    lists::rule(name, action)
}

/// The origin of a definition. An earlier variant hides a later one of the same name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum DefinitionSource {
    /// `--agents` of the command line.
    Command,
    /// A file in the workspace.
    Project(PathBuf),
    /// A file in the user's folders.
    User(PathBuf),
    /// A definition that is compiled into the program.
    BuiltIn,
}

impl DefinitionSource {
    /// The level as it appears in output.
    #[must_use]
    pub const fn level(&self) -> &'static str {
        match self {
            Self::Command => "command",
            Self::Project(_) => "project",
            Self::User(_) => "user",
            Self::BuiltIn => "built_in",
        }
    }

    /// The file, if the definition has one.
    #[must_use]
    pub fn path(&self) -> Option<&PathBuf> {
        match self {
            Self::Project(path) | Self::User(path) => Some(path),
            Self::Command | Self::BuiltIn => None,
        }
    }

    /// The text for rules and error messages.
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            Self::Command => "--agents".to_owned(),
            Self::BuiltIn => "built-in".to_owned(),
            Self::Project(path) | Self::User(path) => path.to_string_lossy().into_owned(),
        }
    }
}

/// The kinds of callers that may start an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AgentMode {
    /// Only people may start it.
    Primary,
    /// Only other agents may start it.
    Subagent,
    /// People and agents may start it.
    #[default]
    All,
}

impl AgentMode {
    /// The modes in the order of error messages.
    pub const ALL: [Self; 3] = [Self::Primary, Self::Subagent, Self::All];

    /// The word in a definition.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Primary => "primary",
            Self::Subagent => "subagent",
            Self::All => "all",
        }
    }
}

/// The class of model that a definition asks for. A launcher maps each tier to one of its models.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tier {
    /// A fast and cheap model.
    Fast,
    /// The launcher's usual model.
    Default,
    /// The most capable model.
    Strong,
}

impl Tier {
    /// The tiers in ascending order.
    pub const ALL: [Self; 3] = [Self::Fast, Self::Default, Self::Strong];

    /// The word in a definition.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Fast => "fast",
            Self::Default => "default",
            Self::Strong => "strong",
        }
    }

    /// Parses a tier: one of our words, or a model family that Claude Code uses there, such as `haiku`.
    #[must_use]
    pub fn of_definition(word: &str) -> Option<Self> {
        match word {
            "fast" | "haiku" => Some(Self::Fast),
            "default" | "sonnet" => Some(Self::Default),
            "strong" | "opus" => Some(Self::Strong),
            _ => None,
        }
    }
}

/// An MCP server that a definition requires.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum McpServerRef {
    /// A server of the config, by name.
    Named(String),
    /// A name and a server that the definition declares itself.
    Inline(String, McpServer),
}

/// An agent definition, checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Definition {
    /// The name of the agent.
    pub name: String,
    /// The text that tells a caller when to use the agent.
    pub description: String,
    /// The origin of the definition.
    pub source: DefinitionSource,
    /// The callers that may start it.
    pub mode: AgentMode,
    /// The launcher; `None` selects the default launcher.
    pub launcher: Option<String>,
    /// Name of the placement; `None` leaves it to launcher and config.
    pub placement: Option<String>,
    /// The model as written; `None` inherits the caller's model.
    pub model: Option<String>,
    /// The rules of `permission`, then those of `disallowedTools`.
    pub rules: Vec<Rule>,
    /// The allowed tools; empty allows all.
    pub tools: Vec<Rule>,
    /// The permission mode of the agent's session.
    pub permission_mode: Option<String>,
    /// Maximum number of tool calls per prompt.
    pub max_steps: Option<u64>,
    /// Maximum duration of a prompt in seconds.
    pub timeout_seconds: Option<f64>,
    /// Permissions of a background task that need no approval.
    pub pre_approved: Vec<Rule>,
    /// Names of skills: folders with a `SKILL.md`.
    pub skills: Vec<String>,
    /// The memory in which agents keep notes between runs.
    pub memory: Option<MemorySettings>,
    /// The MCP servers of the agent.
    pub mcp_servers: Vec<McpServerRef>,
    /// The inline servers with `required: true`. The agent does not start without them.
    pub required_servers: Vec<String>,
    /// Whether it always runs in the background.
    pub background: bool,
    /// Whether lists show it as a separate worker.
    pub inspectable: bool,
    /// Whether the prompt states that the caller is another agent.
    pub caller_is_agent: bool,
    /// Whether the files of its tasks come to the main work tree at their end.
    pub write_back: bool,
    /// What its final message has to meet.
    pub result_schema: Option<Value>,
    /// Maximum size of the result that the caller receives, in tokens.
    pub result_max_tokens: Option<u64>,
    /// Commands that run before or after actions of the agent.
    pub hooks: FileHooks,
    /// The working folder: shared, or a worktree.
    pub isolation: Option<Isolation>,
    /// The limits that the definition adds to the worker's sandbox.
    pub sandbox: Profile,
    /// Keys without a meaning in this version.
    pub unknown: Map<String, Value>,
    /// The prompt: the body of the file.
    pub prompt: String,
    /// Reasons why the agent cannot be started although the definition is readable.
    pub refusals: Vec<DefinitionProblem>,
    /// Warnings for the author of the definition.
    pub notes: Vec<DefinitionProblem>,
}

#[cfg(test)]
mod tests;
