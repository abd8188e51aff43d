//! The result of a check of `doctor`.

use serde::Serialize;

/// The subject of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum CheckedPart {
    /// Running and stray processes.
    Processes,
    /// The database file `state.db`.
    Database,
    /// Journals that the daemon has not stored.
    Journals,
    /// Executables of different versions.
    Versions,
    /// Access rights of our files.
    Permissions,
    /// Free space and file systems.
    Disk,
    /// The config file and its agents.
    Config,
    /// Capabilities of this system.
    Machine,
}

/// The severity of a finding, the worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum FindingStatus {
    /// A feature fails, or data is accessible to others.
    Problem,
    /// The user should know it, but all features work.
    Warning,
    /// A problem that `--fix` has repaired.
    Fixed,
    /// The check found no problem.
    Ok,
}

/// The finding of one check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// Id of the check; the same in every version.
    pub id: &'static str,
    /// The subject of the check.
    pub group: CheckedPart,
    /// The severity of the finding.
    pub status: FindingStatus,
    /// Description of the observation.
    pub seen: String,
    /// Advice; commands are in backquotes.
    pub action: Option<String>,
}

impl Finding {
    /// Whether no action is needed.
    #[must_use]
    pub fn is_well(&self) -> bool {
        self.status == FindingStatus::Ok
    }

    /// Creates a finding without a problem.
    pub fn ok(group: CheckedPart, id: &'static str, seen: impl Into<String>) -> Self {
        Self { id, group, status: FindingStatus::Ok, seen: seen.into(), action: None }
    }

    /// Creates a warning without advice.
    pub fn warning(group: CheckedPart, id: &'static str, seen: impl Into<String>) -> Self {
        Self { status: FindingStatus::Warning, ..Self::ok(group, id, seen) }
    }

    /// Creates a problem without advice.
    pub fn problem(group: CheckedPart, id: &'static str, seen: impl Into<String>) -> Self {
        Self { status: FindingStatus::Problem, ..Self::ok(group, id, seen) }
    }

    /// Creates a finding of a repaired problem.
    pub fn fixed(group: CheckedPart, id: &'static str, seen: impl Into<String>) -> Self {
        Self { status: FindingStatus::Fixed, ..Self::ok(group, id, seen) }
    }

    /// Adds advice to the finding.
    #[must_use]
    pub fn advise(self, action: impl Into<String>) -> Self {
        Self { action: Some(action.into()), ..self }
    }
}
