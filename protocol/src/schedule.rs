//! Schedules: when something is started, and what is done about times that were missed or that overlap.

use serde::{Deserialize, Serialize};

use crate::state::words;

words! {
    /// What happens to times at which no daemon was there.
    Missed {
        /// They are left out.
        Skip = "skip",
        /// The newest of them fires.
        Once = "once",
        /// Each of them fires, the newest 100 at most.
        All = "all",
    }
}

words! {
    /// What happens to a firing while an earlier one of the same schedule is running.
    Overlap {
        /// It is left out.
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
    /// How far a firing is.
    FiringStatus {
        /// It has not been started.
        Waiting = "waiting",
        /// Its task or its turn has not ended.
        Running = "running",
        /// Its task or its turn ended well.
        Completed = "completed",
        /// It could not be started, or its task or its turn failed.
        Failed = "failed",
        /// Its task or its turn was canceled.
        Canceled = "canceled",
        /// It was left out.
        Skipped = "skipped",
    }
}

impl FiringStatus {
    /// Whether nothing more happens to the firing.
    #[must_use]
    pub const fn is_over(self) -> bool {
        !matches!(self, Self::Waiting | Self::Running)
    }
}

words! {
    /// Why a schedule does not fire.
    SchedulePause {
        /// A person paused it.
        User = "user",
        /// As many firings as it allows failed one after the other.
        Failures = "failures",
        /// Its worker is stopped or removed.
        WorkerGone = "worker_gone",
        /// Its definition or launcher cannot be found.
        DefinitionGone = "definition_gone",
        /// Its times cannot be computed, as when the time zone is not known any more.
        Unusable = "unusable",
        /// The state was restored from a backup: some of its times may have fired since.
        Restored = "restored",
    }
}

/// When a schedule fires.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub enum When {
    /// A cron line of five fields, in the schedule's time zone.
    Cron(String),
    /// Seconds between two firings, counted from the time when the schedule was made.
    EverySeconds(u64),
    /// Once: a local time in the schedule's time zone, or a time with an offset.
    At(String),
}

/// The number of failed firings in a row that pauses a schedule, unless it says otherwise.
pub const MAX_FAILURES: u32 = 3;
