//! A permission rule and its text. Pure. The text is `TOOL` or `TOOL(PATTERN)`: `edit`,
//! `edit(src/**)`, `execute(git push*)`, `mcp__github__*`, `task(reviewer)`. The action is
//! separate.

use std::fmt;

use subagent_protocol::api::TASK_SERVER;

use super::glob::{self, MatchResult};
use super::mcp_names;
use super::tool::{self, Tool, ToolKind};

/// Maximum length of a rule in characters.
pub const MAX_RULE_CHARS: usize = 1024;
/// Maximum number of rules in a layer.
pub const MAX_RULES: usize = 1000;

/// The action of a rule, in ascending order of strictness.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RuleAction {
    /// The call runs without an approval.
    Allow,
    /// The call needs an approval.
    Ask,
    /// The call is denied.
    Deny,
}

impl RuleAction {
    /// All actions, in ascending order of strictness.
    pub const ALL: [Self; 3] = [Self::Allow, Self::Ask, Self::Deny];

    /// The word in rules and output.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
        }
    }

    /// Parses the word of an action.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|action| action.as_str() == word)
    }
}

impl fmt::Display for RuleAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A position in a file, counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// Line number from 1.
    pub line: u64,
    /// Column number from 1.
    pub column: u64,
}

/// A problem of a rule with its position in the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleProblem {
    /// The problem and its correction.
    pub problem: String,
    /// Index of the character, counted from 1.
    pub column: usize,
}

/// A permission rule: tool, pattern and action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// The action for matching calls.
    pub action: RuleAction,
    /// Position in the file, if it comes from one.
    pub at: Option<Position>,
    tool: Tool,
    /// The tool as written.
    word: String,
    pattern: String,
}

impl Rule {
    /// Parses `TOOL` or `TOOL(PATTERN)`.
    ///
    /// # Errors
    /// The problem and its position.
    pub fn parse(text: &str, action: RuleAction) -> Result<Self, RuleProblem> {
        let problem = |problem: String, column: usize| Err(RuleProblem { problem, column });
        if text.chars().count() > MAX_RULE_CHARS {
            return problem(format!("is longer than {MAX_RULE_CHARS} characters"), MAX_RULE_CHARS + 1);
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

    /// Creates a rule from its parts, as a config file contains them.
    ///
    /// # Errors
    /// Those of [`Rule::parse`]; columns refer to `TOOL(PATTERN)`.
    pub fn new(word: &str, pattern: Option<&str>, action: RuleAction) -> Result<Self, RuleProblem> {
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
        // The limit includes the parentheses, because `parse` reads this text later.
        if width + pattern.map_or(0, |pattern| pattern.chars().count() + 2) > MAX_RULE_CHARS {
            return problem(format!("is longer than {MAX_RULE_CHARS} characters"), MAX_RULE_CHARS + 1);
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
        if action == RuleAction::Deny && !tool.is_known() {
            // Such a rule would deny nothing without a warning.
            let what = format!("no tool has the name `{word}`, so it would deny nothing");
            return problem(format!("{what}; use one of: {}", tool::kinds()), 1);
        }
        let pattern = pattern.unwrap_or("*").to_owned();
        Ok(Self { action, at: None, tool, word: word.to_owned(), pattern })
    }

    /// Sets the position in the file.
    #[must_use]
    pub fn at(mut self, at: Option<Position>) -> Self {
        self.at = at;
        self
    }

    /// Returns the text of the rule on one line.
    #[must_use]
    pub fn text(&self) -> String {
        if self.pattern == "*" { self.word.clone() } else { format!("{}({})", self.word, self.pattern) }
    }

    /// Returns a warning if the tool is unknown.
    #[must_use]
    pub fn note(&self) -> Option<String> {
        let word = &self.word;
        if !self.tool.is_known() {
            return Some(format!(
                "`{word}` is not a known tool; it fits only an agent's tool of exactly this name"
            ));
        }
        let tasks = tool::names_task_server(word) && self.action != RuleAction::Deny;
        tasks.then(|| {
            format!(
                "tools of the server `{TASK_SERVER}` are allowed only by rules for `task`, not by `{word}`"
            )
        })
    }

    /// Whether the rule names this kind explicitly.
    #[must_use]
    pub fn names(&self, kind: ToolKind) -> bool {
        matches!(&self.tool, Tool::Kinds(kinds) if kinds.contains(&kind))
    }

    /// Whether it is the default that reading a definition adds, and not from its file.
    pub(super) fn is_default_of_tasks(&self) -> bool {
        self.names(ToolKind::Task) && self.is_whole() && self.action == RuleAction::Deny && self.at.is_none()
    }

    /// Whether the rule matches everything that the other one matches. Actions are ignored.
    pub(super) fn covers(&self, other: &Self) -> bool {
        let tools = match (&self.tool, &other.tool) {
            (Tool::Any, Tool::Any | Tool::Named(_)) => true,
            // A rule for everything does not include tasks.
            (Tool::Any, Tool::Kinds(kinds)) => !kinds.contains(&ToolKind::Task),
            (Tool::Kinds(own), Tool::Kinds(kinds)) => kinds.iter().all(|kind| own.contains(kind)),
            (Tool::Named(own), Tool::Named(name)) => own == name || glob::matches(own, name),
            (Tool::Kinds(_) | Tool::Named(_), _) => false,
        };
        tools && (self.is_whole() || self.pattern == other.pattern)
    }

    pub(super) fn pattern(&self) -> &str {
        &self.pattern
    }

    /// Whether the rule is about calls of this kind or of this tool.
    pub(super) fn is_about(&self, kind: ToolKind, name: Option<&str>) -> bool {
        match &self.tool {
            Tool::Kinds(kinds) => kinds.contains(&kind),
            // Only an explicit rule allows tasks.
            _ if kind == ToolKind::Task && self.action != RuleAction::Deny => false,
            Tool::Any => true,
            Tool::Named(_) => self.names_tool(name),
        }
    }

    /// The name of the tool, or the pattern of names, that it is about; none of a rule for kinds.
    pub(super) fn tool_name(&self) -> Option<&str> {
        match &self.tool {
            Tool::Named(name) => Some(name),
            Tool::Any | Tool::Kinds(_) => None,
        }
    }

    /// Whether it is about this tool by its name.
    pub(super) fn names_tool(&self, name: Option<&str>) -> bool {
        match &self.tool {
            Tool::Named(pattern) => name.is_some_and(|name| glob::matches(pattern, name)),
            Tool::Any | Tool::Kinds(_) => false,
        }
    }

    /// Whether a name or title denotes an MCP tool that the rule restricts.
    pub(super) fn fits_label(&self, labels: &[String]) -> MatchResult {
        if self.action > RuleAction::Allow { self.names_label(labels) } else { MatchResult::No }
    }

    /// Whether the rule restricts a server, and a name without a server may be one of its tools.
    pub(super) fn restricts_bare(&self, labels: &[String]) -> bool {
        let restricts = |name: &str| {
            !labels.iter().any(|label| mcp_names::says_mcp(label))
                && labels.iter().any(|label| mcp_names::may_be_bare(name, label))
        };
        matches!(&self.tool, Tool::Named(name) if self.action > RuleAction::Allow && restricts(name))
    }

    /// Whether a name or title denotes an MCP tool that the rule matches.
    pub(super) fn names_label(&self, labels: &[String]) -> MatchResult {
        match &self.tool {
            Tool::Named(name) => {
                labels.iter().map(|label| mcp_names::fits(name, label)).max().unwrap_or(MatchResult::No)
            }
            _ => MatchResult::No,
        }
    }

    /// Whether the rule matches all calls of its tool.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.pattern == "*"
    }
}
