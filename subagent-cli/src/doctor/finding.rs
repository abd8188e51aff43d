//! What a look of `doctor` has to say.

use serde::Serialize;

/// What a look is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Group {
    /// What runs, and what should not.
    Processes,
    /// `state.db`.
    Database,
    /// What runtimes wrote and nobody took.
    Journals,
    /// Old and new executables beside each other.
    Versions,
    /// Who may read what.
    Permissions,
    /// Room.
    Disk,
    /// The config file.
    Config,
    /// What this system offers.
    Machine,
}

/// How bad it is. The worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Status {
    /// Something does not work, or is open to others.
    Problem,
    /// It works, and somebody should know.
    Warning,
    /// It was a problem, and `--fix` has ended it.
    Fixed,
    /// Nothing to do.
    Ok,
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// What was looked at; the same in every version.
    pub id: &'static str,
    /// What that is about.
    pub group: Group,
    /// How bad it is.
    pub status: Status,
    /// What was seen.
    pub seen: String,
    /// What to do about it; a command stands in backquotes.
    pub action: Option<String>,
}

impl Finding {
    /// Whether there is nothing to do.
    #[must_use]
    pub fn is_well(&self) -> bool {
        self.status == Status::Ok
    }

    /// Nothing to do.
    pub fn ok(group: Group, id: &'static str, seen: impl Into<String>) -> Self {
        Self { id, group, status: Status::Ok, seen: seen.into(), action: None }
    }

    /// Worth knowing.
    pub fn warning(group: Group, id: &'static str, seen: impl Into<String>) -> Self {
        Self { status: Status::Warning, ..Self::ok(group, id, seen) }
    }

    /// To be mended.
    pub fn problem(group: Group, id: &'static str, seen: impl Into<String>) -> Self {
        Self { status: Status::Problem, ..Self::ok(group, id, seen) }
    }

    /// Mended.
    pub fn fixed(group: Group, id: &'static str, seen: impl Into<String>) -> Self {
        Self { status: Status::Fixed, ..Self::ok(group, id, seen) }
    }

    /// Says what to do.
    #[must_use]
    pub fn advise(self, action: impl Into<String>) -> Self {
        Self { action: Some(action.into()), ..self }
    }
}
