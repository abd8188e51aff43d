//! Errors as the contract prints them. Pure.

use serde_json::{Value, json};

use super::{advice, json};
use crate::failure::Failure;

/// Returns the document that `--json` prints for an error.
#[must_use]
pub fn envelope(failure: &Failure) -> Value {
    let mut error = json!({
        "code": &*failure.code, "message": failure.message, "retryable": failure.retryable,
    });
    if !failure.details.is_empty() {
        json::extend(&mut error, [("details", Value::Object(failure.details.clone()))]);
    }
    json!({"schemaVersion": "v1", "ok": false, "type": "error", "error": error})
}

/// The lines for stderr: the error, then what to do and what to type, where that is known.
#[must_use]
pub fn text(failure: &Failure) -> String {
    let mut text = failure.to_string();
    for line in advice::lines(failure) {
        text.push_str(&format!("\n{line}"));
    }
    for request in advice::requests(failure) {
        text.push_str(&format!("\nOpen: {request}"));
    }
    if let Some(choices) = advice::choices(failure) {
        text.push_str(&format!("\nAvailable: {choices}"));
    }
    for line in advice::last_words(failure) {
        text.push_str(&format!("\nAgent: {line}"));
    }
    text
}

#[cfg(test)]
mod tests {
    use subagent_protocol::Code;

    use super::*;
    use crate::output::json::line;

    #[test]
    fn details_are_absent_when_empty() {
        let failure = Failure::new(Code::WorkerNotFound, "no such worker");
        assert_eq!(
            line(envelope(&failure)),
            r#"{"error": {"code": "WORKER_NOT_FOUND", "message": "no such worker", "retryable": false}, "ok": false, "schemaVersion": "v1", "type": "error"}"#
        );
        let failure = failure.with("workerId", "w_1").retryable();
        assert_eq!(
            line(envelope(&failure)),
            r#"{"error": {"code": "WORKER_NOT_FOUND", "details": {"workerId": "w_1"}, "message": "no such worker", "retryable": true}, "ok": false, "schemaVersion": "v1", "type": "error"}"#
        );
    }

    #[test]
    fn people_get_the_advice_on_lines_of_its_own() {
        let failure = Failure::new(Code::DaemonNotRunning, "no daemon")
            .recommend("start one")
            .with("recommendedCommand", "subagentd run");
        assert_eq!(text(&failure), "DAEMON_NOT_RUNNING: no daemon\nHint: start one\nTry: subagentd run");
    }
}
