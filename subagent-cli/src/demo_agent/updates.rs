//! The bodies of `session/update` and of permission requests in ACP v1. Pure.

use serde_json::{Value, json};

use super::options::Dialect;

/// A chunk of the agent's message.
pub(super) fn message(text: &str) -> Value {
    json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}})
}

/// A chunk of the user's prompt, for `session/load`.
pub(super) fn user_message(text: &str) -> Value {
    json!({"sessionUpdate": "user_message_chunk", "content": {"type": "text", "text": text}})
}

/// A chunk of the agent's reasoning.
pub(super) fn thought(text: &str) -> Value {
    json!({"sessionUpdate": "agent_thought_chunk", "content": {"type": "text", "text": text}})
}

/// The start of a tool call.
pub(super) fn tool_call(id: &str, kind: &str, title: &str, status: &str) -> Value {
    json!({
        "sessionUpdate": "tool_call", "toolCallId": id, "title": title, "kind": kind, "status": status,
        "content": [], "locations": [], "rawInput": {"title": title},
    })
}

/// The end of a tool call with one text as its content.
pub(super) fn tool_call_end(id: &str, status: &str, text: &str) -> Value {
    json!({
        "sessionUpdate": "tool_call_update", "toolCallId": id, "status": status,
        "content": [{"type": "content", "content": {"type": "text", "text": text}}],
    })
}

/// A plan whose first entry is in progress.
pub(super) fn plan(entries: &[String]) -> Value {
    let entries: Vec<Value> = entries
        .iter()
        .enumerate()
        .map(|(index, content)| {
            let status = if index == 0 { "in_progress" } else { "pending" };
            json!({"content": content, "priority": "medium", "status": status})
        })
        .collect();
    json!({"sessionUpdate": "plan", "entries": entries})
}

/// Usage of the context window in tokens.
pub(super) fn usage(used: u64, size: u64) -> Value {
    json!({"sessionUpdate": "usage_update", "used": used, "size": size})
}

/// The parameters of `session/request_permission` with three options.
pub(super) fn permission(session: &str, tool: &str, kind: &str, title: &str) -> Value {
    json!({
        "sessionId": session,
        "toolCall": {"toolCallId": tool, "title": title, "kind": kind, "status": "pending"},
        "options": [
            {"optionId": "allow-once", "name": "Allow once", "kind": "allow_once"},
            {"optionId": "allow-always", "name": "Always allow", "kind": "allow_always"},
            {"optionId": "reject-once", "name": "Reject", "kind": "reject_once"},
        ],
    })
}

/// Converts the update to a dialect: `Bare` nests the body below its kind and makes `content` a list.
pub(super) fn in_dialect(update: Value, dialect: Dialect) -> Value {
    let (Dialect::Bare, Value::Object(mut body)) = (dialect, update.clone()) else { return update };
    let Some(Value::String(kind)) = body.shift_remove("sessionUpdate") else { return update };
    if let Some(content) = body.get_mut("content").filter(|content| content.is_object()) {
        *content = json!([content.take()]);
    }
    json!({kind: body})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bare_dialect_nests_the_body_below_its_kind() {
        let nested = in_dialect(message("hi"), Dialect::Bare);
        assert_eq!(nested, json!({"agent_message_chunk": {"content": [{"type": "text", "text": "hi"}]}}));
        assert_eq!(in_dialect(message("hi"), Dialect::Standard), message("hi"));
    }
}
