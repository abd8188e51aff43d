//! What an agent may do without asking: rules, what they are about, and what they say of a call.
//!
//! Pure, but for [`real_path`], which is handed in. A [`Policy`] is a chain of nodes from the root to the worker that
//! asks; a node has layers of rules. Inside a node the last rule that fits counts, and a `deny` of its definition is
//! final; over the chain the strictest answer counts. Whoever has no rule that fits abstains; if all do, the owner is
//! asked. A node may have been granted some of what it would be asked for: then the rest of that is denied.

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

pub use call::{Call, Command};
pub use decide::{Decider, Judged, Listed, Verdict};
pub use delegating::{lets_tasks, lists_tool};
pub use exact::AddedTo;
pub use paths::{Places, real_path};
pub use preset::PRESETS;
pub(crate) use read::{located, place_rules, rules};
pub use rule::{Action, MOST_RULE_CHARS, MOST_RULES, Position, Rule, RuleProblem};
pub use shell::MOST_COMMAND_BYTES;
pub use tool::Kind;

/// Where the rules of a layer are from, from the first to the last that counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LayerKind {
    /// The definition of the agent.
    Definition,
    /// `permissions` of the user's own file, below those of a project. No rule of the project loosens its `deny`.
    User,
    /// `permissions` of the config file.
    Config,
    /// Rules that the owner added.
    Owner,
}

impl LayerKind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Definition, Self::User, Self::Config, Self::Owner];

    /// The word that stands for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Definition => "definition",
            Self::User => "user",
            Self::Config => "config",
            Self::Owner => "owner",
        }
    }

    /// The layer that a word stands for.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == word)
    }
}

/// Rules from one place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layer {
    /// What kind of place.
    pub kind: LayerKind,
    /// The file, if it is one.
    pub source: Option<String>,
    /// The rules, in the order of the file.
    pub rules: Vec<Rule>,
}

/// The rules of one worker or task.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Node {
    /// Its name, for people.
    pub name: String,
    /// Its layers.
    layers: Vec<Layer>,
    /// Lists of the only tools, of which all hold; none: no tool is denied for that.
    listed: Vec<Listed>,
    /// What was granted of that for which somebody would be asked; none: somebody is asked.
    granted: Option<Vec<Rule>>,
    /// Whether it is a task.
    is_task: bool,
    /// The folder of its notes, absolute and without links.
    memory: Option<PathBuf>,
}

impl Node {
    /// A node of these layers, in whatever order they are given.
    #[must_use]
    pub fn new(name: impl Into<String>, mut layers: Vec<Layer>) -> Self {
        layers.sort_by_key(|layer| layer.kind);
        Self { name: name.into(), layers, listed: Vec::new(), granted: None, is_task: false, memory: None }
    }

    /// The same, with the tools alone that are in all of these lists; an empty list is none.
    #[must_use]
    pub fn with_tools(mut self, mut listed: Vec<Listed>) -> Self {
        listed.retain(|listed| !listed.tools.is_empty());
        self.listed = listed;
        self
    }

    /// The same, never asking: what it would be asked for and these rules do not grant is denied.
    #[must_use]
    pub fn granting(mut self, granted: Option<Vec<Rule>>) -> Self {
        self.granted = granted;
        self
    }

    /// The same, of a task: it keeps no list of what is to do.
    #[must_use]
    pub const fn of_task(mut self, is_task: bool) -> Self {
        self.is_task = is_task;
        self
    }

    /// The same, with a folder in which it keeps notes.
    #[must_use]
    pub fn with_memory(mut self, memory: Option<PathBuf>) -> Self {
        self.memory = memory;
        self
    }

    /// Whether what was granted to it stands in the place of questions.
    #[must_use]
    pub fn never_asks(&self) -> bool {
        self.granted.is_some()
    }

    /// Its layers, in the order in which they count.
    #[must_use]
    pub fn layers(&self) -> &[Layer] {
        &self.layers
    }
}

/// Who asks, and all above it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Policy {
    /// What paths in rules are about.
    pub places: Places,
    /// From the root to the one that asks.
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
