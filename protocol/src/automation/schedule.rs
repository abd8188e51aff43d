//! Schedules: when work starts, and the handling of missed or overlapping times.

use serde::{Deserialize, Serialize};

use crate::state::words;

/// Maximum length of the name of a schedule or trigger, in bytes.
pub const MAX_NAME_BYTES: usize = 64;

/// Whether a schedule or trigger can have this name: letters, digits, `-`, `_` and `.`, and a letter
/// or digit in front.
#[must_use]
pub fn is_name(name: &str) -> bool {
    let is_plain = |char: char| char.is_ascii_alphanumeric() || "-_.".contains(char);
    name.len() <= MAX_NAME_BYTES
        && name.starts_with(|first: char| first.is_ascii_alphanumeric())
        && name.chars().all(is_plain)
}

words! {
    /// The handling of times at which no daemon was running.
    Missed {
        /// The missed firings are skipped.
        Skip = "skip",
        /// Only the newest of them fires.
        Once = "once",
        /// Each of them fires, at most the newest 100.
        All = "all",
    }
}

words! {
    /// The handling of a firing while an earlier one of the same schedule is running.
    Overlap {
        /// The new one is skipped.
        Skip = "skip",
        /// It starts when the earlier one has ended.
        Queue = "queue",
        /// It starts at once.
        Parallel = "parallel",
        /// The earlier one is canceled, then it starts.
        CancelPrevious = "cancel-previous",
    }
}

words! {
    /// The status of a firing.
    FiringStatus {
        /// It has not been started.
        Waiting = "waiting",
        /// Its task or its turn has not ended.
        Running = "running",
        /// Its task or its turn ended with success.
        Completed = "completed",
        /// It could not be started, or its task or its turn failed.
        Failed = "failed",
        /// Its task or its turn was canceled.
        Canceled = "canceled",
        /// The firing was skipped.
        Skipped = "skipped",
    }
}

impl FiringStatus {
    /// Whether the firing has ended.
    #[must_use]
    pub const fn is_over(self) -> bool {
        !matches!(self, Self::Waiting | Self::Running)
    }
}

words! {
    /// Why a schedule is paused.
    SchedulePause {
        /// A user paused it.
        User = "user",
        /// It reached its limit of consecutive failures.
        Failures = "failures",
        /// Its worker is stopped or removed.
        WorkerGone = "worker_gone",
        /// Its definition or launcher cannot be found.
        DefinitionGone = "definition_gone",
        /// The folder that it watches is gone, or cannot be watched.
        SourceGone = "source_gone",
        /// Its times cannot be computed, for example because the time zone is no longer known.
        Unusable = "unusable",
        /// The state was restored from a backup: some of its times may have fired since.
        Restored = "restored",
    }
}

/// The times of a schedule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub enum When {
    /// A cron line of five fields, in the schedule's time zone.
    Cron(String),
    /// Seconds between two firings, counted from the schedule's creation.
    EverySeconds(u64),
    /// Once: a local time in the schedule's time zone, or a time with an offset.
    At(String),
}

/// Default number of consecutive failures that pauses a schedule.
pub const MAX_FAILURES: u32 = 3;
