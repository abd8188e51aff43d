//! Tools for measurements: statistics, targets and their results, the table, and facts about
//! machine and processes. The rows are in `benches/targets/`. Evaluates numbers and does not
//! produce them: nothing here starts a process or reads a clock.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a row without figures is a mistake in the row")]

mod document;
mod machine;
mod options;
mod process;
mod report;
mod statistics;

pub use document::{BEGIN, END, put, table};
pub use machine::Machine;
pub use options::MeasureOptions;
pub use process::{Memory, Switches, context_switches, cpu_time, memory, peak_of, private};
pub use report::{Figure, Outcome, Report, Row, Target, Unit};
pub use statistics::Summary;
