//! One rule: what it is about, and its text. Pure.
//!
//! A rule is written `TOOL` or `TOOL(PATTERN)`: `edit`, `edit(src/**)`, `execute(git push*)`, `mcp__github__*`,
//! `task(reviewer)`. The action stands beside it.

use std::fmt;

use subagent_protocol::api::TASK_SERVER;

use super::glob::{self, Fits};
use super::mcp_names;
use super::tool::{self, Kind, Tool};

/// A longer rule is none that anybody has written.
pub const MOST_RULE_CHARS: usize = 1024;
/// So many rules make up a layer.
pub const MOST_RULES: usize = 1000;

/// What becomes of a call, from the weakest to the strictest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Action {
    /// It is done without asking.
    Allow,
    /// The owner is asked.
    Ask,
    /// It is not done.
    Deny,
}

impl Action {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Allow, Self::Ask, Self::Deny];

    /// The word that stands for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
        }
    }

    /// The action that a word stands for.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|action| action.as_str() == word)
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Where in a file a rule stands, counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// The line.
    pub line: u64,
    /// The column.
    pub column: u64,
}

/// What is wrong with a rule, and at which character of it, counted from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleProblem {
    /// What is wrong, and what to write instead.
    pub problem: String,
    /// The character.
    pub column: usize,
}

/// A rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// What it says.
    pub action: Action,
    /// Where it stands, if it is from a file.
    pub at: Option<Position>,
    tool: Tool,
    /// The tool as it was written.
    word: String,
    pattern: String,
}

impl Rule {
    /// Reads `TOOL` or `TOOL(PATTERN)`.
    ///
    /// # Errors
    /// What is wrong with it, and where.
    pub fn parse(text: &str, action: Action) -> Result<Self, RuleProblem> {
        let problem = |problem: String, column: usize| Err(RuleProblem { problem, column });
        if text.chars().count() > MOST_RULE_CHARS {
            return problem(format!("is longer than {MOST_RULE_CHARS} characters"), MOST_RULE_CHARS + 1);
        }
        match text.split_once('(') {
            None => Self::new(text, None, action),
            Some((word, rest)) => {
                let open = word.chars().count() + 1;
                let Some(pattern) = rest.strip_suffix(')') else {
                    let column = text.chars().count() + 1;
                    return problem(format!("the `(` at character {open} has no `)` at the end"), column);
                };
                Self::new(word, Some(pattern), action)
            }
        }
    }

    /// A rule from its parts, as a config file has them.
    ///
    /// # Errors
    /// As [`Rule::parse`]; columns are those of `TOOL(PATTERN)`.
    pub fn new(word: &str, pattern: Option<&str>, action: Action) -> Result<Self, RuleProblem> {
        let problem = |problem: String, column: usize| Err(RuleProblem { problem, column });
        let width = word.chars().count();
        let inside = width + 2;
        if word.is_empty() {
            return problem(
                "names no tool; write TOOL or TOOL(PATTERN), as in execute(git push*)".to_owned(),
                1,
            );
        }
        if let Some(at) = word.chars().position(|char| !tool::is_name_char(char)) {
            let what = "a tool's name has letters, digits, `_`, `-`, `.`, `/` and `*` only";
            return problem(format!("{what}; write TOOL or TOOL(PATTERN)"), at + 1);
        }
        let tool = Tool::parse(word).map_err(|problem| RuleProblem { problem, column: 1 })?;
        // As it is written, with its parentheses: what is made here is read by `parse` later.
        if width + pattern.map_or(0, |pattern| pattern.chars().count() + 2) > MOST_RULE_CHARS {
            return problem(format!("is longer than {MOST_RULE_CHARS} characters"), MOST_RULE_CHARS + 1);
        }
        match pattern {
            Some("") => return problem("the pattern is empty; write `*` for everything".to_owned(), inside),
            Some(pattern) if pattern != "*" && !tool.has_subject() => {
                return problem(format!("`{word}` takes no pattern; write `{word}` alone"), inside);
            }
            Some(pattern) if pattern.contains(['\0', '\n', '\r']) => {
                let at = pattern.chars().position(|char| matches!(char, '\0' | '\n' | '\r')).unwrap_or(0);
                return problem("a pattern is one line of text".to_owned(), inside + at);
            }
            _ => {}
        }
        if action == Action::Deny && !tool.is_known() {
            // It would silently deny nothing.
            let what = format!("no tool is known by the name `{word}`, so that it would deny nothing");
            return problem(format!("{what}; use one of: {}", tool::kinds()), 1);
        }
        let pattern = pattern.unwrap_or("*").to_owned();
        Ok(Self { action, at: None, tool, word: word.to_owned(), pattern })
    }

    /// The same, standing there.
    #[must_use]
    pub fn at(mut self, at: Option<Position>) -> Self {
        self.at = at;
        self
    }

    /// The rule as it is written on one line.
    #[must_use]
    pub fn text(&self) -> String {
        if self.pattern == "*" { self.word.clone() } else { format!("{}({})", self.word, self.pattern) }
    }

    /// What a person should know of it: that its name is none that is known.
    #[must_use]
    pub fn note(&self) -> Option<String> {
        let word = &self.word;
        if !self.tool.is_known() {
            return Some(format!(
                "`{word}` is no tool that is known here; it fits only an agent's tool of this very name"
            ));
        }
        let tasks = tool::names_task_server(word) && self.action != Action::Deny;
        tasks.then(|| {
            format!(
                "tools of the server `{TASK_SERVER}` are allowed by rules for `task` alone, not by `{word}`"
            )
        })
    }

    /// Whether it says this kind, and not merely everything.
    #[must_use]
    pub fn names(&self, kind: Kind) -> bool {
        matches!(&self.tool, Tool::Kinds(kinds) if kinds.contains(&kind))
    }

    /// Whether it is about all that the other one is about, whatever they say of it.
    pub(super) fn covers(&self, other: &Self) -> bool {
        let tools = match (&self.tool, &other.tool) {
            (Tool::Any, Tool::Any | Tool::Named(_)) => true,
            // Who says everything does not say tasks.
            (Tool::Any, Tool::Kinds(kinds)) => !kinds.contains(&Kind::Task),
            (Tool::Kinds(own), Tool::Kinds(kinds)) => kinds.iter().all(|kind| own.contains(kind)),
            (Tool::Named(own), Tool::Named(name)) => own == name || glob::matches(own, name),
            (Tool::Kinds(_) | Tool::Named(_), _) => false,
        };
        tools && (self.is_whole() || self.pattern == other.pattern)
    }

    pub(super) fn pattern(&self) -> &str {
        &self.pattern
    }

    /// Whether it is about calls of this kind, or about this tool.
    pub(super) fn is_about(&self, kind: Kind, name: Option<&str>) -> bool {
        match &self.tool {
            Tool::Kinds(kinds) => kinds.contains(&kind),
            // Only who says `task` allows tasks.
            _ if kind == Kind::Task && self.action != Action::Deny => false,
            Tool::Any => true,
            Tool::Named(_) => self.names_tool(name),
        }
    }

    /// Whether it is about this tool by its name.
    pub(super) fn names_tool(&self, name: Option<&str>) -> bool {
        match &self.tool {
            Tool::Named(pattern) => name.is_some_and(|name| glob::matches(pattern, name)),
            Tool::Any | Tool::Kinds(_) => false,
        }
    }

    /// Whether a name or a title stands for the tool of an MCP server that it restricts.
    pub(super) fn fits_label(&self, labels: &[String]) -> Fits {
        if self.action > Action::Allow { self.names_label(labels) } else { Fits::No }
    }

    /// Whether it restricts a server, and a name without one may be of a tool of it.
    pub(super) fn restricts_bare(&self, labels: &[String]) -> bool {
        let restricts = |name: &str| {
            !labels.iter().any(|label| mcp_names::says_mcp(label))
                && labels.iter().any(|label| mcp_names::may_be_bare(name, label))
        };
        matches!(&self.tool, Tool::Named(name) if self.action > Action::Allow && restricts(name))
    }

    /// Whether a name or a title stands for the tool of an MCP server that it is about.
    pub(super) fn names_label(&self, labels: &[String]) -> Fits {
        match &self.tool {
            Tool::Named(name) => {
                labels.iter().map(|label| mcp_names::fits(name, label)).max().unwrap_or(Fits::No)
            }
            _ => Fits::No,
        }
    }

    /// Whether it is about all calls of its tool, whatever they are about.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.pattern == "*"
    }
}
