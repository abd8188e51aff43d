//! Reads errors of daemons, and of the way to them.

use serde::Deserialize;
use serde_json::Value;
use subagent_protocol::lenient::{self, Lenient};

/// Whether what was asked for does not exist (any more).
pub(crate) fn is_not_found(error: &Value) -> bool {
    code_of(error).ends_with("_NOT_FOUND")
}

/// An error of the daemon, or of the way to it.
#[derive(Default, Deserialize)]
#[serde(default)]
struct PanelError<'a> {
    #[serde(borrow)]
    code: Lenient<&'a str>,
}

/// The code of an error; empty if it has none.
pub(crate) fn code_of(error: &Value) -> &str {
    lenient::read::<PanelError<'_>>(error).code.0.unwrap_or_default()
}
