//! Reads errors of daemons, and of the way to them.

use serde::Deserialize;
use serde_json::{Value, json};
use subagent_protocol::lenient::{self, Lenient, ObjectField};
use subagent_protocol::{Code, Error};

/// The error of a daemon from before overviews.
pub(crate) fn of_age(error: Value) -> Value {
    let known: PanelError<'_> = lenient::read(&error);
    match (known.code.0, known.details.0.path.0) {
        (Some("INVALID_ARGUMENT"), Some("/v1/overview")) => json!(
            Error::new(
                Code::DaemonTooOld,
                "the daemon is older than this panel, and cannot show its workers"
            )
            .recommend("replace it by one of this version with `subagent daemon restart`")
        ),
        _ => error,
    }
}

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
    details: ObjectField<ErrorDetails<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ErrorDetails<'a> {
    /// What was asked for, if there is no such thing.
    #[serde(borrow)]
    path: Lenient<&'a str>,
}

/// The code of an error; empty if it has none.
pub(crate) fn code_of(error: &Value) -> &str {
    lenient::read::<PanelError<'_>>(error).code.0.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_daemon_without_overviews_is_too_old() {
        let unknown = |path: &str| {
            let details = json!({"path": path});
            json!({"code": "INVALID_ARGUMENT", "message": "m", "retryable": false, "details": details})
        };
        assert_eq!(code_of(&of_age(unknown("/v1/overview"))), "DAEMON_TOO_OLD");
        for other in [unknown("/v1/x"), json!({"code": "STORAGE_ERROR"}), json!(null)] {
            assert_eq!(of_age(other.clone()), other);
        }
    }
}
