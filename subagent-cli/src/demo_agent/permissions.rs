//! `!ask` and `!ask2`: tool calls that wait for a permission.

use std::time::Duration;

use serde_json::Value;

use super::turn::{DemoTurn, EarlyEnd, WakeReason};
use super::updates;
use super::wire::RpcError;

/// Maximum duration of a single wait; a permission has no timeout.
const LONG: Duration = Duration::from_secs(3600);

#[derive(Debug, PartialEq, Eq)]
enum PermissionOutcome {
    Allowed(String),
    Rejected(String),
    Cancelled,
    /// A response outside of ACP, as text.
    Broken(String),
}

/// Sends all permission requests at once and handles the responses in order of arrival.
pub(super) fn ask(turn: &mut DemoTurn<'_>, kind: &str, title: &str, requests: u8) -> Result<(), EarlyEnd> {
    let mut waiting = Vec::new();
    for number in 1..=requests {
        let title = if requests == 1 { title.to_owned() } else { format!("{title} ({number})") };
        let tool = turn.agent.tool_id();
        turn.record(updates::tool_call(&tool, kind, &title, "pending"))?;
        turn.open_tools.push(tool.clone());
        let id = turn.agent.request_id();
        let params = updates::permission(&turn.session, &tool, kind, &title);
        turn.agent.out.request(id, "session/request_permission", &params)?;
        let label = if requests == 1 { "permission".to_owned() } else { format!("permission {number}") };
        waiting.push((id, tool, label));
    }
    while !waiting.is_empty() {
        let WakeReason::Answer { id, result } = turn.wait(LONG)? else { continue };
        let Some(index) = waiting.iter().position(|(asked, ..)| *asked == id) else { continue };
        let (_, tool, label) = waiting.remove(index);
        turn.open_tools.retain(|open| *open != tool);
        let (status, text) = match verdict(result) {
            PermissionOutcome::Allowed(option) => ("completed", option),
            PermissionOutcome::Rejected(option) => ("failed", option),
            PermissionOutcome::Cancelled => ("failed", "cancelled".to_owned()),
            PermissionOutcome::Broken(what) => ("failed", what),
        };
        turn.record(updates::tool_call_end(&tool, status, &text))?;
        turn.say(&format!("{label}: {text}"))?;
    }
    Ok(())
}

fn verdict(result: Result<Value, RpcError>) -> PermissionOutcome {
    let outcome = match result {
        Ok(mut result) => result.get_mut("outcome").map(Value::take).unwrap_or_default(),
        Err(error) => return PermissionOutcome::Broken(format!("error {}", error.code)),
    };
    let word = |key: &str| outcome.get(key).and_then(Value::as_str);
    match (word("outcome"), word("optionId")) {
        (Some("cancelled"), _) => PermissionOutcome::Cancelled,
        (Some("selected"), Some(option @ ("allow-once" | "allow-always"))) => {
            PermissionOutcome::Allowed(option.to_owned())
        }
        (Some("selected"), Some("reject-once")) => PermissionOutcome::Rejected("reject-once".to_owned()),
        (Some("selected"), Some(option)) => PermissionOutcome::Broken(format!("unknown option {option}")),
        _ => PermissionOutcome::Broken(format!("not an outcome: {outcome}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn answers_are_judged_strictly() {
        let selected = |id: &str| verdict(Ok(json!({"outcome": {"outcome": "selected", "optionId": id}})));
        assert_eq!(selected("allow-always"), PermissionOutcome::Allowed("allow-always".into()));
        assert_eq!(selected("reject-once"), PermissionOutcome::Rejected("reject-once".into()));
        assert_eq!(selected("allow"), PermissionOutcome::Broken("unknown option allow".into()));
        assert_eq!(verdict(Ok(json!({"outcome": {"outcome": "cancelled"}}))), PermissionOutcome::Cancelled);
        assert_eq!(verdict(Ok(json!({}))), PermissionOutcome::Broken("not an outcome: null".into()));
        assert_eq!(verdict(Err(RpcError::new(-32601, ""))), PermissionOutcome::Broken("error -32601".into()));
    }
}
