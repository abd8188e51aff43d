//! The requests of an [`AgentQuery`](subagent_protocol::ask::AgentQuery) that workers never make.
//!
//! Does not know when they are sent.

use agent_client_protocol_schema::ProtocolVersion;
use agent_client_protocol_schema::v1::{
    AuthCapabilities, ClientCapabilities, DeleteSessionRequest, Implementation, InitializeRequest,
};
use serde_json::{Value, json};

use subagent_protocol::ask::TERMINAL_AUTH;

use crate::acp::requests::{request, session_capabilities};

/// `initialize`. Declares terminal logins, which the command line supports, and the features that
/// decide which options the agent reports.
pub(super) fn initialize(id: u64) -> Vec<u8> {
    let capabilities = ClientCapabilities::new()
        .auth(AuthCapabilities::new().terminal(true))
        .session(session_capabilities())
        .meta(serde_json::Map::from_iter([(TERMINAL_AUTH.to_owned(), true.into())]));
    let params = InitializeRequest::new(ProtocolVersion::V1)
        .client_info(Implementation::new("subagent", env!("CARGO_PKG_VERSION")))
        .client_capabilities(capabilities);
    request(id, "initialize", params)
}

/// The ACP method `logout`.
pub(super) fn logout(id: u64) -> Vec<u8> {
    request(id, "logout", json!({}))
}

/// The ACP method `session/list`.
pub(super) fn list_sessions(id: u64, cwd: Option<&str>, cursor: Option<&str>) -> Vec<u8> {
    let mut params = serde_json::Map::new();
    for (key, value) in [("cwd", cwd), ("cursor", cursor)] {
        if let Some(value) = value {
            params.insert(key.to_owned(), value.into());
        }
    }
    request(id, "session/list", Value::Object(params))
}

/// The ACP method `session/delete`.
pub(super) fn delete_session(id: u64, session: &str) -> Vec<u8> {
    request(id, "session/delete", DeleteSessionRequest::new(session.to_owned()))
}
