//! What is due when the clock is looked at.

use std::collections::BTreeSet;

use subagent_protocol::schedule::Missed;
use subagent_protocol::time::Timestamp;

use super::times::Times;

/// Missed times of which each fires with `missed: all`.
pub(crate) const MAX_DUE: usize = 100;
/// Missed times that are counted.
const MAX_COUNTED: usize = 1000;
/// A time is missed if it is noticed later than this, in milliseconds.
const LATE_MS: i64 = 60_000;

/// What is stored about a schedule's times.
#[derive(Debug, Clone)]
pub(crate) struct ScheduleProgress {
    /// All times up to this one were looked at.
    pub(crate) cursor: Timestamp,
    /// Times after the cursor, or after now if that is earlier, that have fired or were left out.
    pub(crate) fired: BTreeSet<Timestamp>,
}

/// A time that is due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DueTime {
    pub(crate) at: Timestamp,
    /// How many times before it do not fire, at most 1000.
    pub(crate) left_out: usize,
}

/// What one look leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DueTimes {
    /// These fire, oldest first.
    pub(crate) fire: Vec<DueTime>,
    /// The newest of times that were missed and do not fire.
    pub(crate) skip: Option<DueTime>,
    /// The time of this look; the next look begins there.
    pub(crate) cursor: Timestamp,
    /// When to look again; `None` if no time comes any more.
    pub(crate) next: Option<Timestamp>,
}

/// Looks at the clock.
pub(crate) fn look(times: &Times, missed: Missed, state: &ScheduleProgress, now: Timestamp) -> DueTimes {
    // After the clock went back, times that have passed before count once more, unless something
    // was done about them.
    let since = state.cursor.min(now);
    let mut due = Vec::new();
    let mut until = now;
    while due.len() < MAX_COUNTED {
        let Some(at) = times.last(until).filter(|at| *at > since) else { break };
        if !state.fired.contains(&at) {
            due.push(at);
        }
        until = Timestamp(at.0.saturating_sub(1));
    }
    let newest = |left_out| due.first().map(|at| DueTime { at: *at, left_out });
    let others = due.len().saturating_sub(1);
    let is_late = due.first().is_some_and(|at| now.0.saturating_sub(at.0) > LATE_MS);
    let (fire, skip) = match missed {
        Missed::Skip if is_late => (Vec::new(), newest(others)),
        Missed::Skip | Missed::Once => (newest(others).into_iter().collect(), None),
        Missed::All => {
            let left_out = due.len().saturating_sub(MAX_DUE);
            let each = due.iter().take(MAX_DUE).rev().enumerate();
            let each =
                each.map(|(index, at)| DueTime { at: *at, left_out: if index == 0 { left_out } else { 0 } });
            (each.collect(), None)
        }
    };
    DueTimes { fire, skip, cursor: now, next: next(times, state, now) }
}

/// The first time after now about which nothing was done.
fn next(times: &Times, state: &ScheduleProgress, now: Timestamp) -> Option<Timestamp> {
    let mut next = times.next(now)?;
    while state.fired.contains(&next) {
        next = times.next(next)?;
    }
    Some(next)
}
