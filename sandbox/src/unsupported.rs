//! Systems other than Linux cannot confine agents, so nothing is started in a sandbox.

use std::ffi::OsString;
use std::process::ExitCode;

/// Always fails with an error.
pub fn main(_args: impl Iterator<Item = OsString>) -> ExitCode {
    ExitCode::from(126)
}
