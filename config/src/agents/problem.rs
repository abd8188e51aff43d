//! A problem of a definition with its position. Pure.

use std::fmt;

use crate::policy::Position;

/// Maximum length of quoted file content in bytes.
const MAX_QUOTED: usize = 400;

/// The effect of a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The agent works nevertheless.
    Note,
    /// The agent cannot be started.
    Error,
}

impl Severity {
    /// The word in output.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Error => "error",
        }
    }
}

/// A finding about a definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DefinitionProblem {
    /// The effect of the problem.
    pub severity: Severity,
    /// The position in the file, if known.
    pub at: Option<Position>,
    /// The key that causes the problem.
    pub key: Option<String>,
    /// The problem and its correction.
    pub message: String,
    /// The name in the definition, if it is readable.
    pub(super) agent: Option<String>,
}

impl DefinitionProblem {
    pub(super) fn new(severity: Severity, message: impl Into<String>) -> Self {
        Self { severity, at: None, key: None, message: brief(message.into()), agent: None }
    }

    /// Creates a problem that prevents a start.
    pub(super) fn error(message: impl Into<String>) -> Self {
        Self::new(Severity::Error, message)
    }

    /// Creates a problem that does not prevent a start.
    pub(super) fn note(message: impl Into<String>) -> Self {
        Self::new(Severity::Note, message)
    }

    pub(super) fn at(mut self, at: Option<Position>) -> Self {
        self.at = at;
        self
    }

    pub(super) fn of_agent(mut self, agent: Option<String>) -> Self {
        self.agent = agent;
        self
    }

    pub(super) fn of_key(mut self, key: &str) -> Self {
        self.key = Some(brief(key.to_owned()));
        self
    }
}

impl fmt::Display for DefinitionProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(at) = self.at {
            write!(f, "{}:{}: ", at.line, at.column)?;
        }
        f.write_str(&self.message)
    }
}

/// Truncates text from a file, which can have any length.
fn brief(mut text: String) -> String {
    if text.len() > MAX_QUOTED {
        text.truncate(text.floor_char_boundary(MAX_QUOTED));
        text.push('…');
    }
    text
}
