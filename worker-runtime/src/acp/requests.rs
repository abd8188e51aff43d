//! The messages that we send, as lines. Everything that ACP has a type for is built from it.
//!
//! Must not know when they are sent.

use agent_client_protocol_schema::ProtocolVersion;
use agent_client_protocol_schema::v1::{
    CancelNotification, ClientCapabilities, CloseSessionRequest, ElicitationCapabilities,
    ElicitationFormCapabilities, ElicitationUrlCapabilities, Implementation, InitializeRequest,
    LoadSessionRequest, NewSessionRequest, RequestPermissionOutcome, RequestPermissionResponse,
    ResumeSessionRequest, SelectedPermissionOutcome,
};
use serde::Serialize;
use serde_json::{Map, Value, json};
use subagent_protocol::state::ElicitationAction;

/// JSON-RPC: no such method.
pub(crate) const METHOD_NOT_FOUND: i32 = -32601;
/// JSON-RPC: not a request.
pub(crate) const INVALID_REQUEST: i32 = -32600;
/// JSON-RPC: we cannot.
pub(crate) const INTERNAL_ERROR: i32 = -32603;
/// ACP: the request was withdrawn.
pub(crate) const REQUEST_CANCELLED: i32 = -32800;
/// ACP: the agent wants somebody to log in first.
pub(crate) const AUTH_REQUIRED: i64 = -32000;

#[derive(Serialize)]
struct Request<'a, P> {
    jsonrpc: &'static str,
    id: u64,
    method: &'a str,
    params: P,
}

#[derive(Serialize)]
struct Prompt<'a> {
    #[serde(rename = "sessionId")]
    session_id: &'a str,
    prompt: &'a [Value],
}

/// `initialize`: version 1, and nothing offered that is not implemented.
pub(crate) fn initialize(id: u64) -> Vec<u8> {
    let params = InitializeRequest::new(ProtocolVersion::V1)
        .client_info(Implementation::new("subagent", env!("CARGO_PKG_VERSION")))
        .client_capabilities(ClientCapabilities::new().elicitation(elicitations()));
    request(id, "initialize", params)
}

/// Questions to the user, in forms and behind links.
fn elicitations() -> ElicitationCapabilities {
    ElicitationCapabilities::new()
        .form(ElicitationFormCapabilities::new())
        .url(ElicitationUrlCapabilities::new())
}

/// `session/new`.
pub(crate) fn new_session(id: u64, cwd: &str) -> Vec<u8> {
    request(id, "session/new", NewSessionRequest::new(cwd))
}

/// `session/load`.
pub(crate) fn load_session(id: u64, session: &str, cwd: &str) -> Vec<u8> {
    request(id, "session/load", LoadSessionRequest::new(session.to_owned(), cwd))
}

/// `session/resume`.
pub(crate) fn resume_session(id: u64, session: &str, cwd: &str) -> Vec<u8> {
    // The schema leaves an empty list out; agents that were written against a draft insist on it.
    let mut params = json!(ResumeSessionRequest::new(session.to_owned(), cwd));
    if let Some(params) = params.as_object_mut() {
        params.entry("mcpServers").or_insert_with(|| json!([]));
    }
    request(id, "session/resume", params)
}

/// `session/close`.
pub(crate) fn close_session(id: u64, session: &str) -> Vec<u8> {
    request(id, "session/close", CloseSessionRequest::new(session.to_owned()))
}

/// `session/prompt`. The blocks go through as they came: which ones an agent takes is its business.
pub(crate) fn prompt(id: u64, session: &str, prompt: &[Value]) -> Vec<u8> {
    request(id, "session/prompt", Prompt { session_id: session, prompt })
}

/// `session/cancel`.
pub(crate) fn cancel(session: &str) -> Vec<u8> {
    let params = CancelNotification::new(session.to_owned());
    line(&json!({"jsonrpc": "2.0", "method": "session/cancel", "params": params}))
}

/// The answer to a permission request; `None` says `cancelled`.
pub(crate) fn permission(id: &str, option: Option<&str>) -> Vec<u8> {
    let outcome = match option {
        Some(option) => RequestPermissionOutcome::Selected(SelectedPermissionOutcome::new(option.to_owned())),
        None => RequestPermissionOutcome::Cancelled,
    };
    answer(id, "result", &RequestPermissionResponse::new(outcome))
}

/// The answer to an elicitation. The content goes through as it came: it was checked by whoever took it.
pub(crate) fn elicitation(
    id: &str,
    action: ElicitationAction,
    content: Option<&Map<String, Value>>,
) -> Vec<u8> {
    let mut result = json!({"action": action});
    if let (ElicitationAction::Accept, Some(content)) = (action, content) {
        result["content"] = json!(content);
    }
    answer(id, "result", &result)
}

/// An error as the answer to a request; `id` is JSON text.
pub(crate) fn error(id: &str, code: i32, message: &str) -> Vec<u8> {
    answer(id, "error", &json!({"code": code, "message": message}))
}

fn request<P: Serialize>(id: u64, method: &str, params: P) -> Vec<u8> {
    line(&Request { jsonrpc: "2.0", id, method, params })
}

/// The id is echoed to the letter: it may be a number that no type of ours can hold.
fn answer<T: Serialize>(id: &str, key: &str, value: &T) -> Vec<u8> {
    let mut bytes = format!(r#"{{"jsonrpc":"2.0","id":{id},"{key}":"#).into_bytes();
    append(&mut bytes, value);
    bytes.extend_from_slice(b"}\n");
    bytes
}

fn line<T: Serialize>(message: &T) -> Vec<u8> {
    let mut bytes = Vec::new();
    append(&mut bytes, message);
    bytes.push(b'\n');
    bytes
}

// Text, numbers and JSON values into memory: there is nothing that could fail (paths come in as text).
#[allow(clippy::expect_used)]
fn append<T: Serialize>(bytes: &mut Vec<u8>, value: &T) {
    serde_json::to_writer(bytes, value).expect("JSON of text and numbers can be written into memory");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(bytes: Vec<u8>) -> String {
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn the_handshake_offers_what_is_there() {
        let sent: Value = serde_json::from_slice(&initialize(0)).unwrap();
        assert_eq!(sent["params"]["protocolVersion"], 1);
        assert_eq!(sent["params"]["clientInfo"]["name"], "subagent");
        let capabilities = &sent["params"]["clientCapabilities"];
        assert_eq!(capabilities["fs"], json!({"readTextFile": false, "writeTextFile": false}));
        assert_eq!(capabilities["terminal"], false);
        assert_eq!(capabilities["elicitation"], json!({"form": {}, "url": {}}));
    }

    #[test]
    fn sessions_name_folder_and_servers() {
        for line in [new_session(1, "/w"), load_session(1, "s", "/w"), resume_session(1, "s", "/w")] {
            let sent: Value = serde_json::from_slice(&line).unwrap();
            assert_eq!(sent["params"]["cwd"], "/w");
            assert_eq!(sent["params"]["mcpServers"], json!([]), "{sent}");
        }
    }

    #[test]
    fn an_elicitation_is_answered_in_the_words_of_the_schema() {
        use agent_client_protocol_schema::v1::{CreateElicitationResponse, ElicitationAction as Typed};
        let content = json!({"name": "x", "size": 3, "share": 0.5, "sure": true, "tags": ["a"]});
        let sent = |action, content: Option<&Value>| {
            let line = elicitation("7", action, content.and_then(Value::as_object));
            let line: Value = serde_json::from_slice(&line).unwrap();
            serde_json::from_value::<CreateElicitationResponse>(line["result"].clone()).unwrap().action
        };
        let Typed::Accept(accepted) = sent(ElicitationAction::Accept, Some(&content)) else { panic!() };
        assert_eq!(json!(accepted.content), content);
        assert_eq!(sent(ElicitationAction::Decline, Some(&content)), Typed::Decline);
        assert_eq!(sent(ElicitationAction::Cancel, None), Typed::Cancel);
    }

    #[test]
    fn answers_echo_the_id() {
        assert_eq!(
            text(permission("0", Some("a"))),
            "{\"jsonrpc\":\"2.0\",\"id\":0,\"result\":{\"outcome\":{\"outcome\":\"selected\",\"optionId\":\"a\"}}}\n"
        );
        assert_eq!(
            text(permission("\"x\"", None)),
            "{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"result\":{\"outcome\":{\"outcome\":\"cancelled\"}}}\n"
        );
        assert_eq!(
            text(error("1e400", METHOD_NOT_FOUND, "m")),
            "{\"jsonrpc\":\"2.0\",\"id\":1e400,\"error\":{\"code\":-32601,\"message\":\"m\"}}\n"
        );
    }
}
