//! The messages that we send, as lines. Uses the ACP crate's types where they exist.
//!
//! Does not know when they are sent.

use agent_client_protocol_schema::ProtocolVersion;
use agent_client_protocol_schema::v1::{
    AuthenticateRequest, BooleanConfigOptionCapabilities, CancelNotification, ClientCapabilities,
    ClientSessionCapabilities, CloseSessionRequest, CompactionCapabilities, ElicitationCapabilities,
    ElicitationFormCapabilities, ElicitationUrlCapabilities, FileSystemCapabilities, Implementation,
    InitializeRequest, LoadSessionRequest, NewSessionRequest, NoticeCapabilities, RequestPermissionOutcome,
    RequestPermissionResponse, ResumeSessionRequest, SelectedPermissionOutcome, SessionConfigOptionValue,
    SessionConfigOptionsCapabilities, SetSessionConfigOptionRequest, SetSessionModeRequest,
};
use serde::Serialize;
use serde_json::{Map, Value, json};
use subagent_protocol::definition::Instructions;
use subagent_protocol::json::extend;
use subagent_protocol::mcp::McpServers;
use subagent_protocol::options::OptionValue;
use subagent_protocol::state::ElicitationAction;

use super::options::Setter;

/// JSON-RPC: the method does not exist.
pub(crate) const METHOD_NOT_FOUND: i32 = -32601;
/// JSON-RPC: not a valid request.
pub(crate) const INVALID_REQUEST: i32 = -32600;
/// JSON-RPC: the method does not accept these parameters.
pub(crate) const INVALID_PARAMS: i32 = -32602;
/// ACP: the file or terminal does not exist.
pub(crate) const RESOURCE_NOT_FOUND: i32 = -32002;
/// JSON-RPC: the client failed.
pub(crate) const INTERNAL_ERROR: i32 = -32603;
/// ACP: the request was canceled.
pub(crate) const REQUEST_CANCELLED: i32 = -32800;
/// ACP: the user has to log in first.
pub(crate) const AUTH_REQUIRED: i64 = -32000;

#[derive(Serialize)]
struct RpcRequest<'a, P> {
    jsonrpc: &'static str,
    id: u64,
    method: &'a str,
    params: P,
}

#[derive(Serialize)]
struct PromptParams<'a> {
    #[serde(rename = "sessionId")]
    session_id: &'a str,
    prompt: Vec<&'a Value>,
}

/// `initialize` for version 1, with the implemented capabilities. Offers to read files
/// unless `reads_files` is false.
pub(crate) fn initialize(id: u64, reads_files: bool) -> Vec<u8> {
    let files = FileSystemCapabilities::new().read_text_file(reads_files).write_text_file(true);
    let capabilities = ClientCapabilities::new().fs(files).terminal(true).session(session_capabilities());
    let params = InitializeRequest::new(ProtocolVersion::V1)
        .client_info(Implementation::new("subagent", env!("CARGO_PKG_VERSION")))
        .client_capabilities(capabilities.elicitation(elicitations()));
    let mut params = json!(params);
    // Stable in the protocol, but not in the crate yet. Agents report subagent sessions only to
    // clients that declare this.
    params["clientCapabilities"]["subagents"] = json!({});
    request(id, "initialize", params)
}

/// Questions to the user, as forms and as links.
fn elicitations() -> ElicitationCapabilities {
    ElicitationCapabilities::new()
        .form(ElicitationFormCapabilities::new())
        .url(ElicitationUrlCapabilities::new())
}

/// The session features that this client understands.
pub(crate) fn session_capabilities() -> ClientSessionCapabilities {
    let options = SessionConfigOptionsCapabilities::new().boolean(BooleanConfigOptionCapabilities::new());
    ClientSessionCapabilities::new()
        .config_options(options)
        .notices(NoticeCapabilities::new())
        .compaction(CompactionCapabilities::new())
}

/// The parameters of every request for a session.
#[derive(Debug, Default)]
pub(crate) struct SessionContext {
    /// The agent's working directory.
    pub(crate) cwd: String,
    /// Further directories for the agent's work.
    pub(crate) additional_directories: Vec<String>,
    pub(crate) mcp_servers: McpServers,
    /// What the agent's definition adds.
    pub(crate) instructions: Option<Instructions>,
    /// Whether the agent accepts the instructions as a system prompt.
    pub(crate) system_prompt: bool,
}

impl SessionContext {
    /// Adds what the typed requests lack. Always includes the list of servers: agents written
    /// against a draft require it.
    fn complete<P: Serialize>(&self, request: P) -> Value {
        let mut params = json!(request);
        extend(&mut params, [("mcpServers", json!(self.mcp_servers))]);
        if !self.additional_directories.is_empty() {
            extend(&mut params, [("additionalDirectories", json!(self.additional_directories))]);
        }
        if let Some(instructions) = self.instructions.as_ref().filter(|_| self.system_prompt) {
            extend(&mut params, [("systemPrompt", instructions.system_prompt())]);
        }
        params
    }
}

/// The ACP method `session/new`.
pub(crate) fn new_session(id: u64, context: &SessionContext) -> Vec<u8> {
    request(id, "session/new", context.complete(NewSessionRequest::new(&context.cwd)))
}

/// The ACP method `session/load`.
pub(crate) fn load_session(id: u64, session: &str, context: &SessionContext) -> Vec<u8> {
    request(id, "session/load", context.complete(LoadSessionRequest::new(session.to_owned(), &context.cwd)))
}

/// The ACP method `session/resume`.
pub(crate) fn resume_session(id: u64, session: &str, context: &SessionContext) -> Vec<u8> {
    request(
        id,
        "session/resume",
        context.complete(ResumeSessionRequest::new(session.to_owned(), &context.cwd)),
    )
}

/// Sets an option of a session.
pub(crate) fn set(id: u64, session: &str, setter: &Setter) -> Vec<u8> {
    let method = setter.method();
    match setter {
        Setter::Mode(mode) => {
            request(id, method, SetSessionModeRequest::new(session.to_owned(), mode.clone()))
        }
        // The specification no longer has a type for it.
        Setter::Model(model) => request(id, method, json!({"sessionId": session, "modelId": model})),
        Setter::Config(option, value) => {
            let value = match value {
                OptionValue::Flag(flag) => SessionConfigOptionValue::boolean(*flag),
                OptionValue::Text(text) => SessionConfigOptionValue::value_id(text.clone()),
            };
            let params = SetSessionConfigOptionRequest::new(session.to_owned(), option.clone(), value);
            request(id, method, params)
        }
    }
}

/// The ACP method `authenticate`.
pub(crate) fn authenticate(id: u64, method: &str) -> Vec<u8> {
    request(id, "authenticate", AuthenticateRequest::new(method.to_owned()))
}

/// The ACP method `session/close`.
pub(crate) fn close_session(id: u64, session: &str) -> Vec<u8> {
    request(id, "session/close", CloseSessionRequest::new(session.to_owned()))
}

/// `session/prompt`. Passes the blocks through unchanged; the agent decides which ones it accepts.
pub(crate) fn prompt(
    id: u64,
    session: &str,
    before: Option<&Value>,
    prompt: &[Value],
    attached: &[Value],
) -> Vec<u8> {
    let prompt = before.into_iter().chain(prompt).chain(attached).collect();
    request(id, "session/prompt", PromptParams { session_id: session, prompt })
}

/// The ACP method `session/cancel`.
pub(crate) fn cancel(session: &str) -> Vec<u8> {
    let params = CancelNotification::new(session.to_owned());
    line(&json!({"jsonrpc": "2.0", "method": "session/cancel", "params": params}))
}

/// `$/cancel_request`: we no longer need the response to this request of ours.
pub(crate) fn cancel_request(id: u64) -> Vec<u8> {
    line(&json!({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": id}}))
}

/// The response to a permission request; `None` means `cancelled`.
pub(crate) fn permission(id: &str, option: Option<&str>) -> Vec<u8> {
    let outcome = match option {
        Some(option) => RequestPermissionOutcome::Selected(SelectedPermissionOutcome::new(option.to_owned())),
        None => RequestPermissionOutcome::Cancelled,
    };
    answer(id, "result", &RequestPermissionResponse::new(outcome))
}

/// The result of a request from the agent; `id` is JSON text.
pub(crate) fn result<T: Serialize>(id: &str, result: &T) -> Vec<u8> {
    answer(id, "result", result)
}

/// An error response with `data`.
pub(crate) fn error_with(id: &str, code: i32, message: &str, data: &Value) -> Vec<u8> {
    answer(id, "error", &json!({"code": code, "message": message, "data": data}))
}

/// The response to an elicitation. Passes the content through: the receiver of the
/// answer has checked it.
pub(crate) fn elicitation(
    id: &str,
    action: ElicitationAction,
    content: Option<&Map<String, Value>>,
) -> Vec<u8> {
    let mut result = json!({"action": action});
    if let (ElicitationAction::Accept, Some(content)) = (action, content) {
        extend(&mut result, [("content", json!(content))]);
    }
    answer(id, "result", &result)
}

/// An error response; `id` is JSON text.
pub(crate) fn error(id: &str, code: i32, message: &str) -> Vec<u8> {
    answer(id, "error", &json!({"code": code, "message": message}))
}

pub(crate) fn request<P: Serialize>(id: u64, method: &str, params: P) -> Vec<u8> {
    line(&RpcRequest { jsonrpc: "2.0", id, method, params })
}

/// Echoes the id verbatim: it may be a number that no Rust type can hold.
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

// Serializing text, numbers and JSON values into memory cannot fail (paths arrive as text).
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
    fn the_handshake_offers_the_implemented_capabilities() {
        for reads_files in [true, false] {
            let sent: Value = serde_json::from_slice(&initialize(0, reads_files)).unwrap();
            assert_eq!(sent["params"]["protocolVersion"], 1);
            assert_eq!(sent["params"]["clientInfo"]["name"], "subagent");
            let capabilities = &sent["params"]["clientCapabilities"];
            assert_eq!(capabilities["fs"], json!({"readTextFile": reads_files, "writeTextFile": true}));
            assert_eq!(capabilities["terminal"], true);
            assert_eq!(
                capabilities["session"],
                json!({"configOptions": {"boolean": {}}, "notices": {}, "compaction": {}})
            );
            assert_eq!(capabilities["elicitation"], json!({"form": {}, "url": {}}));
            assert_eq!(capabilities["subagents"], json!({}));
        }
    }

    #[test]
    fn sessions_name_folder_and_servers() {
        let bare = SessionContext { cwd: "/w".to_owned(), ..SessionContext::default() };
        let servers = vec![json!({"name": "a", "command": "c", "args": [], "env": []})];
        let full = SessionContext {
            additional_directories: vec!["/x".to_owned()],
            mcp_servers: McpServers(servers.clone()),
            ..bare
        };
        let bare = SessionContext { cwd: "/w".to_owned(), ..SessionContext::default() };
        for (context, servers, directories) in
            [(bare, json!([]), json!(null)), (full, json!(servers), json!(["/x"]))]
        {
            for line in
                [new_session(1, &context), load_session(1, "s", &context), resume_session(1, "s", &context)]
            {
                let sent: Value = serde_json::from_slice(&line).unwrap();
                assert_eq!(sent["params"]["cwd"], "/w");
                assert_eq!(sent["params"]["mcpServers"], servers, "{sent}");
                assert_eq!(sent["params"]["additionalDirectories"], directories, "{sent}");
            }
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
