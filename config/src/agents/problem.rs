//! What is wrong with a definition, and where. Pure.

use std::fmt;

use crate::policy::Position;

/// The longest text that a problem quotes of a file.
const MOST_QUOTED: usize = 400;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// It works all the same.
    Note,
    /// The agent cannot be started.
    Error,
}

impl Severity {
    /// The word for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Error => "error",
        }
    }
}

/// Something about a definition that a person should know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// How bad it is.
    pub severity: Severity,
    /// Where in the file.
    pub at: Option<Position>,
    /// The key that it is about.
    pub key: Option<String>,
    /// What is wrong, and what to write instead.
    pub message: String,
    /// The name that the definition gives itself, if that much could be read.
    pub(super) agent: Option<String>,
}

impl Problem {
    /// Without a place.
    pub(super) fn new(severity: Severity, message: impl Into<String>) -> Self {
        Self { severity, at: None, key: None, message: brief(message.into()), agent: None }
    }

    /// It cannot be started.
    pub(super) fn error(message: impl Into<String>) -> Self {
        Self::new(Severity::Error, message)
    }

    /// It works all the same.
    pub(super) fn note(message: impl Into<String>) -> Self {
        Self::new(Severity::Note, message)
    }

    /// The same, of this place.
    pub(super) fn at(mut self, at: Option<Position>) -> Self {
        self.at = at;
        self
    }

    /// The same, of the definition of this name.
    pub(super) fn of_agent(mut self, agent: Option<String>) -> Self {
        self.agent = agent;
        self
    }

    /// The same, of this key.
    pub(super) fn of_key(mut self, key: &str) -> Self {
        self.key = Some(brief(key.to_owned()));
        self
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(at) = self.at {
            write!(f, "{}:{}: ", at.line, at.column)?;
        }
        f.write_str(&self.message)
    }
}

/// What is in a file may be of any length; what quotes it is for people.
fn brief(mut text: String) -> String {
    if text.len() > MOST_QUOTED {
        text.truncate(text.floor_char_boundary(MOST_QUOTED));
        text.push('…');
    }
    text
}
