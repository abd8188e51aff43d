//! When schedules fire: times, missed times, overlaps and failures; the texts of triggers. Pure.
//!
//! Must not do I/O, look at a clock, or know the store: the time zone and "now" are handed in.

mod cron;
mod look;
mod overlap;
pub(crate) mod template;
mod times;

#[cfg(test)]
mod tests;

pub(crate) use look::{DueTime, DueTimes, ScheduleProgress, look};
pub(crate) use overlap::{FiringAdmission, admit, failures_in_a_row, pauses};
pub(crate) use times::Times;
