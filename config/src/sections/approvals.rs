//! Timeouts for permission requests and other questions: the key `approvals`. Pure.

use std::time::Duration;

use serde_json::{Map, Value};

use crate::check::{CheckResult, refuse};
use crate::section::Section;

/// The action when an answer does not arrive in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeoutAction {
    /// Deny the permission request.
    Deny,
    /// Cancel the turn that asks.
    Cancel,
}

/// The timeout for questions, and the action on timeout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Approvals {
    /// The timeout; `None` waits without limit.
    pub timeout: Option<Duration>,
    /// The action on timeout; `None` uses the default.
    pub on_timeout: Option<TimeoutAction>,
}

pub(crate) fn approvals(root: &Map<String, Value>) -> CheckResult<Approvals> {
    let Some(given) = Section::root(root).section("approvals")? else {
        return Ok(Approvals::default());
    };
    let on_timeout = match given.string("onTimeout")? {
        None => None,
        Some("deny") => Some(TimeoutAction::Deny),
        Some("cancel") => Some(TimeoutAction::Cancel),
        Some(word) => {
            return refuse(given.place("onTimeout"), format!("says `{word}`; write deny or cancel"));
        }
    };
    Ok(Approvals {
        // The minimum equals that of the idle timeout. A shorter time leaves no chance to answer.
        timeout: given.seconds("timeoutSeconds", 0.1)?,
        on_timeout,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::error::FieldPath;

    fn read(value: Value) -> CheckResult<Approvals> {
        approvals(json!({"approvals": value}).as_object().unwrap())
    }

    #[test]
    fn a_time_and_what_happens_then() {
        let all = read(json!({"timeoutSeconds": 600, "onTimeout": "cancel"})).unwrap();
        let expected =
            Approvals { timeout: Some(Duration::from_secs(600)), on_timeout: Some(TimeoutAction::Cancel) };
        assert_eq!(all, expected);
        assert_eq!(read(json!(null)).unwrap(), Approvals::default());
        assert_eq!(read(json!({"onTimeout": null})).unwrap(), Approvals::default());
        for (wrong, field) in [
            (json!({"onTimeout": "allow"}), "approvals.onTimeout"),
            (json!({"timeoutSeconds": 0}), "approvals.timeoutSeconds"),
            (json!({"timeoutSeconds": "10m"}), "approvals.timeoutSeconds"),
            (json!([]), "approvals"),
        ] {
            assert_eq!(read(wrong.clone()).unwrap_err().place, FieldPath::Field(field.to_owned()), "{wrong}");
        }
    }
}
