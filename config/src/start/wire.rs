//! Formats times, paths and rejected arguments for requests and errors. Pure.

use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use subagent_protocol::{Code, Error};

/// Returns an error `INVALID_ARGUMENT`.
pub(super) fn argument(message: impl Into<String>) -> Error {
    Error::new(Code::InvalidArgument, message)
}

/// Returns a path as JSON. Bytes that are not UTF-8 are replaced: JSON has only text.
pub(super) fn path_value(path: &Path) -> Value {
    path.to_string_lossy().into_owned().into()
}

/// Returns a time in whole milliseconds, at most `u64::MAX`.
pub(crate) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
