//! `!elicit`: a question to the user as a form or link. `!raw`: a literal message.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use subagent_protocol::json::extend;

use super::turn::{DemoTurn, EarlyEnd, WakeReason};

/// Maximum duration of a single wait; an answer has no timeout.
const LONG: Duration = Duration::from_secs(3600);

/// Asks with these parameters, by default for this session, and reports the answer. With a `file`, the
/// file gets the whole answer, and the report only its action.
pub(super) fn elicit(
    turn: &mut DemoTurn<'_>,
    params: &str,
    file: Option<&Path>,
) -> Result<Option<String>, EarlyEnd> {
    let mut params: Value = match serde_json::from_str(params) {
        Ok(params @ Value::Object(_)) => params,
        _ => return Ok(Some("!elicit takes a JSON object".to_owned())),
    };
    if params.get("sessionId").is_none() && params.get("requestId").is_none() {
        extend(&mut params, [("sessionId", json!(turn.session))]);
    }
    let id = turn.agent.request_id();
    turn.agent.out.request(id, "elicitation/create", &params)?;
    loop {
        let WakeReason::Answer { id: answered, result } = turn.wait(LONG)? else { continue };
        if answered != id {
            continue;
        }
        let said = match (result, file) {
            (Err(error), _) => format!("error {}", error.code),
            (Ok(result), None) => result.to_string(),
            (Ok(result), Some(path)) => {
                if let Err(error) = std::fs::write(path, result.to_string()) {
                    return Ok(Some(format!("!elicit-to: {error}")));
                }
                result["action"].as_str().unwrap_or("no action").to_owned()
            }
        };
        return turn.say(&format!("elicitation: {said}")).map(|()| None);
    }
}

/// Writes a line with `SESSION` replaced by the session's id.
pub(super) fn raw(turn: &mut DemoTurn<'_>, line: &str) -> Result<(), EarlyEnd> {
    let line = line.replace("SESSION", &turn.session) + "\n";
    Ok(turn.agent.out.raw(line.as_bytes())?)
}
