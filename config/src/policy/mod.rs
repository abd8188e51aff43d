//! Permissions of agents: rules, their subjects, and the verdict on a call.
//!
//! Pure: callers pass in the function that resolves links ([`real_path`]).

use std::path::PathBuf;

mod address;
pub mod call;
mod decide;
mod delegating;
mod exact;
mod glob;
mod mcp_names;
mod paths;
mod preset;
mod read;
mod rule;
mod shell;
mod tool;

pub use call::{CallCommand, ToolCallDescription};
pub use decide::{CallVerdict, Judged, MatchedRule, ToolList};
pub use delegating::{lets_tasks, lists_tool};
pub use exact::RuleTarget;
pub use paths::{BaseFolders, PROTECTED, real_path};
pub use preset::PRESETS;
pub(crate) use read::{located, place_rules, rules};
pub use rule::{MAX_RULE_CHARS, MAX_RULES, Position, Rule, RuleAction, RuleProblem};
pub use shell::MAX_COMMAND_BYTES;
pub use tool::ToolKind;

/// The origin of a layer, in ascending order of precedence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LayerKind {
    /// The definition of the agent.
    Definition,
    /// `permissions` of the user file below a project file. The project's rules cannot loosen its `deny`.
    User,
    /// `permissions` of the config file.
    Config,
    /// Rules that the owner added.
    Owner,
}

impl LayerKind {
    /// All kinds, in ascending order of precedence.
    pub const ALL: [Self; 4] = [Self::Definition, Self::User, Self::Config, Self::Owner];

    /// The word in rules and output.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Definition => "definition",
            Self::User => "user",
            Self::Config => "config",
            Self::Owner => "owner",
        }
    }

    /// Parses the word of a layer.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == word)
    }
}

/// The rules of one origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layer {
    /// The origin of the rules.
    pub kind: LayerKind,
    /// Path of the file with the rules.
    pub source: Option<String>,
    /// The rules in file order.
    pub rules: Vec<Rule>,
}

/// The permissions of one worker or task.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Node {
    /// Name of the node, for display.
    pub name: String,
    layers: Vec<Layer>,
    /// Tool lists; a tool must be in all of them. Without lists, all tools pass.
    listed: Vec<ToolList>,
    /// Grants that replace approvals; `None` if the node asks.
    granted: Option<Vec<Rule>>,
    is_task: bool,
    /// The memory folder, absolute and without links.
    memory: Option<PathBuf>,
}

impl Node {
    /// Creates a node from layers in any order.
    #[must_use]
    pub fn new(name: impl Into<String>, mut layers: Vec<Layer>) -> Self {
        layers.sort_by_key(|layer| layer.kind);
        Self { name: name.into(), layers, listed: Vec::new(), granted: None, is_task: false, memory: None }
    }

    /// Restricts the node to tools that all of these lists contain; an empty list is ignored.
    #[must_use]
    pub fn with_tools(mut self, mut listed: Vec<ToolList>) -> Self {
        listed.retain(|listed| !listed.tools.is_empty());
        self.listed = listed;
        self
    }

    /// Makes the node never ask: it denies what needs an approval and matches none of these rules.
    #[must_use]
    pub fn granting(mut self, granted: Option<Vec<Rule>>) -> Self {
        self.granted = granted;
        self
    }

    /// Marks the node as a task, which may not keep a todo list.
    #[must_use]
    pub const fn of_task(mut self, is_task: bool) -> Self {
        self.is_task = is_task;
        self
    }

    /// Sets the memory folder.
    #[must_use]
    pub fn with_memory(mut self, memory: Option<PathBuf>) -> Self {
        self.memory = memory;
        self
    }

    /// Whether the node has grants, so that it never asks.
    #[must_use]
    pub fn never_asks(&self) -> bool {
        self.granted.is_some()
    }

    /// The layers in ascending order of precedence.
    #[must_use]
    pub fn layers(&self) -> &[Layer] {
        &self.layers
    }
}

/// The permissions of a worker and its ancestors: a chain of nodes, each with layers of rules.
///
/// In a node the last matching rule counts, and a `deny` of the definition is final. Over the chain the
/// strictest answer counts; a node without a matching rule abstains. If all abstain, the owner is asked; a
/// node with grants denies instead.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Policy {
    /// The folders that paths are relative to.
    pub places: BaseFolders,
    /// The nodes from the root to the asking worker.
    pub chain: Vec<Node>,
}

#[cfg(test)]
mod differential;
#[cfg(test)]
mod everyday;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
