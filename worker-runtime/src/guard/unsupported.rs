//! Stands in for the guard where there is no subreaper: it says so, and starts nothing.
//!
//! Must not pretend: an agent without a guard could leave processes behind.

use std::io;
use std::time::Duration;

use super::EndReport;
use super::options::Options;

/// Always fails: nothing is started.
///
/// # Errors
/// [`io::ErrorKind::Unsupported`].
pub(super) fn run(_options: Options) -> io::Result<()> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "ending a whole process tree is only supported on Linux"))
}

/// Ends nothing, and does not claim that nothing is left.
pub(super) fn end_descendants(_deadline: Duration, _spare: &[i32]) -> EndReport {
    EndReport { killed: 0, remaining: Vec::new(), clean: false, elapsed: Duration::ZERO }
}
