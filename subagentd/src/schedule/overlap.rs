//! What happens to a firing while an earlier one runs, and when failures pause a schedule.

use subagent_protocol::schedule::{FiringStatus, Overlap};

/// Firings of a schedule that wait for earlier ones.
pub(crate) const MAX_WAITING: usize = 20;

/// What to do about the oldest firing that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FiringAdmission {
    Start,
    /// It waits for the end of what runs.
    Wait,
    /// It is left out.
    Skip,
    /// What runs is canceled; it starts when that has ended.
    CancelRunning,
}

/// Decides it: `running` firings have not ended, and `behind` others wait behind this one.
pub(crate) fn admit(overlap: Overlap, running: usize, behind: usize) -> FiringAdmission {
    match overlap {
        Overlap::Parallel => FiringAdmission::Start,
        // The newest one takes the place of all before it.
        Overlap::CancelPrevious if behind > 0 => FiringAdmission::Skip,
        _ if running == 0 => FiringAdmission::Start,
        Overlap::Skip => FiringAdmission::Skip,
        Overlap::CancelPrevious => FiringAdmission::CancelRunning,
        Overlap::Queue if behind >= MAX_WAITING => FiringAdmission::Skip,
        Overlap::Queue => FiringAdmission::Wait,
    }
}

/// Counts the newest firings that failed in a row. A canceled or skipped one proves nothing.
pub(crate) fn failures_in_a_row(newest_first: impl IntoIterator<Item = FiringStatus>) -> u32 {
    let ends = newest_first.into_iter().take_while(|status| *status != FiringStatus::Completed);
    let count = ends.filter(|status| *status == FiringStatus::Failed).count();
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// Whether a firing with this end pauses its schedule, which has this many failures in a row. A
/// limit of zero pauses never.
pub(crate) const fn pauses(status: FiringStatus, failures: u32, limit: u32) -> bool {
    matches!(status, FiringStatus::Failed) && limit > 0 && failures >= limit
}
