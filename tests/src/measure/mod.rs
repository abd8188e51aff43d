//! What measuring is made of, apart from what is measured: figures of many times, targets and whether they are met, the
//! table of them, what a machine and a process say of themselves. The rows are in `benches/targets/`.
//!
//! It judges numbers and must not make them: nothing here starts anything or looks at a clock.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a row without figures is a mistake in the row")]

mod document;
mod machine;
mod options;
mod process;
mod report;
mod statistics;

pub use document::{BEGIN, END, put, table};
pub use machine::Machine;
pub use options::Options;
pub use process::{Memory, Switches, context_switches, memory, peak_of, private};
pub use report::{Figure, Outcome, Report, Row, Target, Unit};
pub use statistics::Summary;
