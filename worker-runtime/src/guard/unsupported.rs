//! Replaces the guard on systems without a subreaper: reports an error and starts nothing.
//!
//! An agent without a guard could leave processes behind.

use std::io;
use std::time::Duration;

use super::EndReport;
use super::options::GuardOptions;

/// Always fails and starts nothing.
///
/// # Errors
///
/// Always [`io::ErrorKind::Unsupported`] on these systems.
pub(super) fn run(_options: GuardOptions) -> io::Result<()> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "ending a whole process tree is only supported on Linux"))
}

/// Ends nothing, and does not report that nothing is left.
pub(super) fn end_descendants(_deadline: Duration, _spare: &[i32]) -> EndReport {
    EndReport { killed: 0, remaining: Vec::new(), clean: false, elapsed: Duration::ZERO }
}
