//! Client requests of an agent (`fs/*`, `terminal/*`): the bodies of their records, and their
//! public view. Nothing here fails: unknown data is omitted and stays in the raw text.

// The journal contains the parameters as the agent sent them. Of the responses it contains only
// small facts, never the content of a file.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::surrogates;

/// The kind of a `progress.update` about a file.
pub const FS: &str = "fs";
/// The kind of a `progress.update` about a terminal.
pub const TERMINAL: &str = "terminal";
/// The `method` of a [`TerminalExited`], which is not a request.
pub const TERMINAL_EXITED: &str = "terminal.exited";
/// ACP's code for a request that the agent withdrew.
pub const REQUEST_CANCELLED: i32 = -32800;

/// Returns the kind of a client method; `None` for other methods.
#[must_use]
pub fn kind_of(method: &str) -> Option<&'static str> {
    match method {
        "fs/read_text_file" | "fs/write_text_file" => Some(FS),
        "terminal/create"
        | "terminal/output"
        | "terminal/wait_for_exit"
        | "terminal/kill"
        | "terminal/release" => Some(TERMINAL),
        _ => None,
    }
}

/// Body of [`crate::record::RecordType::ClientRequest`]: written before the request is carried out.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClientRequest {
    /// Number for the response: 1, 2, 3, ... in each runtime.
    pub call: u64,
    /// Name of the method.
    pub method: String,
    /// Its parameters as the agent sent them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub params: Option<Box<RawValue>>,
}

/// Body of [`crate::record::RecordType::ClientResponse`]: written before the response is sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClientResponse {
    /// Number of the request.
    pub call: u64,
    /// Method of the request.
    pub method: String,
    /// Known facts about the outcome.
    #[serde(flatten)]
    pub facts: ClientRequestFacts,
    /// The error of a failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<RequestFailure>,
}

/// Small facts about an outcome.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClientRequestFacts {
    /// The file, as the agent named it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Number of bytes read or written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Id of the terminal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terminal_id: Option<String>,
    /// Exit status of its command, if it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_status: Option<ExitStatus>,
}

/// The error that was returned to the agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Failure))]
pub struct RequestFailure {
    /// The JSON-RPC error code.
    pub code: i32,
    /// Description of the error.
    pub message: String,
}

/// How a command ended: one of both, or neither if unknown.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ExitStatus {
    /// The command's exit code.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(required))]
    pub exit_code: Option<u32>,
    /// The name of the signal that ended it.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(required))]
    pub signal: Option<String>,
}

/// Body of [`crate::record::RecordType::TerminalExited`], written at a command's end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TerminalExited {
    /// Id of the terminal.
    pub terminal_id: String,
    /// How its command ended.
    pub exit_status: ExitStatus,
    /// Number of bytes printed by then.
    pub output_bytes: u64,
    /// The end of the output, at most 4 KiB.
    pub tail: String,
}

/// Returns the `data` of the event of a [`ClientRequest`].
#[must_use]
pub(crate) fn request_data(payload: &str) -> Value {
    let Ok(request) = surrogates::parse::<ClientRequest>(payload) else { return json!({}) };
    let params: Value =
        request.params.as_deref().and_then(|params| surrogates::parse(params.get()).ok()).unwrap_or_default();
    let mut data = head(&request.method, "requested");
    data.insert("call".to_owned(), request.call.into());
    let mut take = |name: &str, fits: fn(&Value) -> bool| {
        if let Some(value) = params.get(name).filter(|value| fits(value)) {
            data.insert(name.to_owned(), value.clone());
        }
    };
    for text in ["path", "terminalId", "command", "cwd"] {
        take(text, Value::is_string);
    }
    for number in ["line", "limit", "outputByteLimit"] {
        take(number, Value::is_u64);
    }
    take("args", |args| args.as_array().is_some_and(|args| args.iter().all(Value::is_string)));
    if let Some(content) = params["content"].as_str() {
        data.insert("bytes".to_owned(), content.len().into());
    }
    data.into()
}

/// Returns the `data` of the event of a [`ClientResponse`].
#[must_use]
pub(crate) fn response_data(payload: &str) -> Value {
    let Ok(response) = surrogates::parse::<ClientResponse>(payload) else { return json!({}) };
    let status = match &response.error {
        None => "completed",
        Some(error) if error.code == REQUEST_CANCELLED => "canceled",
        Some(_) => "failed",
    };
    let mut data = head(&response.method, status);
    data.insert("call".to_owned(), response.call.into());
    if let Ok(Value::Object(facts)) = serde_json::to_value(&response.facts) {
        data.extend(facts);
    }
    if let Some(error) = &response.error {
        data.insert("error".to_owned(), json!(error));
    }
    data.into()
}

/// Returns the `data` of the event of a [`TerminalExited`].
#[must_use]
pub(crate) fn exited_data(payload: &str) -> Value {
    let Ok(exited) = surrogates::parse::<TerminalExited>(payload) else { return json!({}) };
    let mut data = head(TERMINAL_EXITED, "exited");
    if let Ok(Value::Object(facts)) = serde_json::to_value(&exited) {
        data.extend(facts);
    }
    data.into()
}

fn head(method: &str, status: &str) -> Map<String, Value> {
    let kind = kind_of(method).unwrap_or(TERMINAL);
    let head = [("method", method), ("kind", kind), ("status", status)];
    head.map(|(name, value)| (name.to_owned(), value.into())).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_shows_what_it_is_about_and_no_content() {
        let write = r#"{"call":3,"method":"fs/write_text_file","params":{"sessionId":"s","path":"/w/a","content":"säcret"}}"#;
        assert_eq!(
            request_data(write),
            json!({"method": "fs/write_text_file", "kind": "fs", "status": "requested", "call": 3, "path": "/w/a", "bytes": 7})
        );
        let create = r#"{"call":4,"method":"terminal/create","params":{"command":"ls","args":["-l"],"env":[{"name":"A","value":"secret"}],"cwd":7}}"#;
        assert_eq!(
            request_data(create),
            json!({"method": "terminal/create", "kind": "terminal", "status": "requested", "call": 4, "command": "ls", "args": ["-l"]})
        );
        assert_eq!(
            request_data(r#"{"call":5,"method":"fs/read_text_file"}"#),
            json!({"method": "fs/read_text_file", "kind": "fs", "status": "requested", "call": 5})
        );
        assert_eq!(request_data("{"), json!({}));
    }

    #[test]
    fn a_response_says_how_it_went() {
        let mut response = ClientResponse {
            call: 3,
            method: "fs/read_text_file".to_owned(),
            facts: ClientRequestFacts {
                path: Some("/w/a".to_owned()),
                bytes: Some(2),
                ..ClientRequestFacts::default()
            },
            error: None,
        };
        let body = serde_json::to_string(&response).unwrap();
        assert_eq!(body, r#"{"call":3,"method":"fs/read_text_file","path":"/w/a","bytes":2}"#);
        assert_eq!(serde_json::from_str::<ClientResponse>(&body).unwrap(), response);
        assert_eq!(
            response_data(&body),
            json!({"method": "fs/read_text_file", "kind": "fs", "status": "completed", "call": 3, "path": "/w/a", "bytes": 2})
        );
        for (code, status) in [(-32002, "failed"), (REQUEST_CANCELLED, "canceled")] {
            response.error = Some(RequestFailure { code, message: "m".to_owned() });
            let data = response_data(&serde_json::to_string(&response).unwrap());
            assert_eq!((&data["status"], &data["error"]["code"]), (&json!(status), &json!(code)));
        }
    }

    #[test]
    fn the_end_of_a_terminal_shows_its_last_words() {
        let body = r#"{"terminalId":"term_1_1","exitStatus":{"exitCode":1,"signal":null},"outputBytes":9,"tail":"no such f"}"#;
        assert_eq!(
            exited_data(body),
            json!({
                "method": "terminal.exited", "kind": "terminal", "status": "exited", "terminalId": "term_1_1",
                "exitStatus": {"exitCode": 1, "signal": null}, "outputBytes": 9, "tail": "no such f",
            })
        );
    }
}
