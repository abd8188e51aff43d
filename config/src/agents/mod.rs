//! Agents as files: Markdown with YAML in front, which says what an agent is for, what it may do, and with which prompt.
//!
//! [`read`] is pure; [`Catalog::find`] looks at the files and [`skills`] at what they name. Nothing here knows workers, and
//! nothing is started. Whoever wrote a file may have written anything: all of it has bounds, and what cannot be read is a
//! [`Problem`] with a place, never a failure of the rest.

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
use crate::memory::Memory;
use crate::policy::{Action, Rule};
use crate::sandbox::Profile;
use crate::worktrees::Isolation;

pub use catalog::{Catalog, Found, Given, Hidden, Refused};
pub use problem::{Problem, Severity};
pub use read::{Reading, read};

/// The longest file that is read, in bytes: it becomes part of a prompt.
pub const MAX_BYTES: usize = 256 * 1024;
/// The longest name, in characters.
pub const MAX_NAME_CHARS: usize = 64;

/// Whether a definition can have this name: it is a part of paths, of rules and of prompts.
#[must_use]
pub fn is_name(name: &str) -> bool {
    let fits = name.chars().all(|char| char.is_alphanumeric() || char == '-');
    fits && !name.is_empty() && name.chars().count() <= MAX_NAME_CHARS
}

/// A tool that somebody names, as a rule: `Bash(git:*)` is `Bash(git *)`.
///
/// # Errors
/// What is wrong with it.
pub fn tool(name: &str, action: Action) -> Result<Rule, String> {
    lists::rule(name, action)
}

/// Where a definition is from; the earlier hides the later of the same name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// `--agents` of the command.
    Command,
    /// A file of the workspace.
    Project(PathBuf),
    /// A file of the user.
    User(PathBuf),
    /// One of those that come with the program.
    BuiltIn,
}

impl Source {
    /// The word for the level.
    #[must_use]
    pub const fn level(&self) -> &'static str {
        match self {
            Self::Command => "command",
            Self::Project(_) => "project",
            Self::User(_) => "user",
            Self::BuiltIn => "built_in",
        }
    }

    /// The file, if it is one.
    #[must_use]
    pub fn path(&self) -> Option<&PathBuf> {
        match self {
            Self::Project(path) | Self::User(path) => Some(path),
            Self::Command | Self::BuiltIn => None,
        }
    }

    /// In words, for rules and errors.
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            Self::Command => "--agents".to_owned(),
            Self::BuiltIn => "built-in".to_owned(),
            Self::Project(path) | Self::User(path) => path.to_string_lossy().into_owned(),
        }
    }
}

/// Who may call an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// People alone.
    Primary,
    /// Other agents alone.
    Subagent,
    /// Both.
    #[default]
    All,
}

impl Mode {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Primary, Self::Subagent, Self::All];

    /// The word for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Primary => "primary",
            Self::Subagent => "subagent",
            Self::All => "all",
        }
    }
}

/// How good a model is wanted, for launchers that say which of theirs that is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tier {
    /// A fast and cheap one.
    Fast,
    /// The usual one.
    Default,
    /// The best.
    Strong,
}

impl Tier {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Fast, Self::Default, Self::Strong];

    /// The word for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Fast => "fast",
            Self::Default => "default",
            Self::Strong => "strong",
        }
    }

    /// The tier that a word of a definition means: one of ours, or a family of models that others write there.
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

/// An MCP server that a definition asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum McpWish {
    /// One of the config.
    Named(String),
    /// One of its own.
    Inline(String, McpServer),
}

/// A definition of an agent.
#[derive(Debug, Clone, PartialEq)]
pub struct Definition {
    /// Its name.
    pub name: String,
    /// When to give it work.
    pub description: String,
    /// Where it is from.
    pub source: Source,
    /// Who may call it.
    pub mode: Mode,
    /// The launcher; without it, the one that would be taken anyway.
    pub launcher: Option<String>,
    /// The model, as it was written; none to inherit it.
    pub model: Option<String>,
    /// The rules of `permission`, then those of `disallowedTools`.
    pub rules: Vec<Rule>,
    /// The only tools that are not denied; none: all of them.
    pub tools: Vec<Rule>,
    /// The mode of its session.
    pub permission_mode: Option<String>,
    /// How many tool calls a prompt may make.
    pub max_steps: Option<u64>,
    /// How long a prompt may run.
    pub timeout_seconds: Option<f64>,
    /// What a background task may do without asking.
    pub pre_approved: Vec<Rule>,
    /// Names of folders with a `SKILL.md`.
    pub skills: Vec<String>,
    /// Where its agents keep notes for their next run.
    pub memory: Option<Memory>,
    /// Its MCP servers.
    pub mcp_servers: Vec<McpWish>,
    /// Of its own servers those without which it is not to work (`required`).
    pub required_servers: Vec<String>,
    /// Whether it always runs in the background.
    pub background: bool,
    /// Whether it is listed as a worker of its own.
    pub inspectable: bool,
    /// Whether it is told that its caller is another agent.
    pub caller_is_agent: bool,
    /// What its final message has to meet.
    pub result_schema: Option<Value>,
    /// How much of its result the caller gets, in tokens.
    pub result_max_tokens: Option<u64>,
    /// Commands that run before or after what it does.
    pub hooks: FileHooks,
    /// Where it works.
    pub isolation: Option<Isolation>,
    /// What it takes away from the sandbox of its worker.
    pub sandbox: Profile,
    /// Keys that mean nothing here.
    pub unknown: Map<String, Value>,
    /// What it is told.
    pub prompt: String,
    /// Why it cannot be started although it could be read.
    pub refusals: Vec<Problem>,
    /// What a person should know of it.
    pub notes: Vec<Problem>,
}

#[cfg(test)]
mod tests;
