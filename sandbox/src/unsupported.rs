//! Systems that are not Linux confine nothing, and so start nothing in a sandbox.

use std::ffi::OsString;
use std::process::ExitCode;

/// Refuses.
pub fn main(_args: impl Iterator<Item = OsString>) -> ExitCode {
    ExitCode::from(126)
}
