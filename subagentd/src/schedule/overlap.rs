//! What happens to a firing while an earlier one runs, and when failures pause a schedule.

use subagent_protocol::schedule::{FiringStatus, Overlap};

/// Firings of a schedule that wait for earlier ones.
pub(crate) const MAX_WAITING: usize = 20;

/// What to do about the oldest firing that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Admission {
    Start,
    /// It waits for the end of what runs.
    Wait,
    /// It is left out.
    Skip,
    /// What runs is canceled; it starts when that has ended.
    CancelRunning,
}

/// Decides it: `running` firings have not ended, and `behind` others wait behind this one.
pub(crate) fn admit(overlap: Overlap, running: usize, behind: usize) -> Admission {
    match overlap {
        Overlap::Parallel => Admission::Start,
        // The newest one takes the place of all before it.
        Overlap::CancelPrevious if behind > 0 => Admission::Skip,
        _ if running == 0 => Admission::Start,
        Overlap::Skip => Admission::Skip,
        Overlap::CancelPrevious => Admission::CancelRunning,
        Overlap::Queue if behind >= MAX_WAITING => Admission::Skip,
        Overlap::Queue => Admission::Wait,
    }
}

/// How many firings have failed in a row after this one, and whether that pauses the schedule. Zero as the limit: never.
pub(crate) fn failures_after(failures: u32, status: FiringStatus, limit: u32) -> (u32, bool) {
    let failures = match status {
        FiringStatus::Failed => failures.saturating_add(1),
        FiringStatus::Completed => 0,
        _ => return (failures, false),
    };
    (failures, limit > 0 && failures >= limit)
}
