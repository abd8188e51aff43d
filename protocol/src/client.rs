//! What an agent asked of its client (`fs/*`, `terminal/*`): the bodies of its records, and what people see of them.
//!
//! The parameters stand in the journal as the agent sent them. Of the answers only small facts do: never what a file
//! holds. Nothing here fails: what is not understood is left out, and stays in the raw text.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::surrogates;

/// The kind of a `progress.update` about a file.
pub const FS: &str = "fs";
/// The kind of a `progress.update` about a terminal.
pub const TERMINAL: &str = "terminal";
/// The `method` of a [`TerminalExited`], which is no request.
pub const TERMINAL_EXITED: &str = "terminal.exited";
/// ACP's code for a request that the agent withdrew.
pub const REQUEST_CANCELLED: i32 = -32800;

/// The kind that a method of the client belongs to, `None` for one that is none.
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

/// Body of [`crate::record::RecordType::ClientRequest`]: written before anything of it is carried out.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClientRequest {
    /// Names the request in its response: 1, 2, 3, ... in each runtime.
    pub call: u64,
    /// The method.
    pub method: String,
    /// Its parameters as the agent sent them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub params: Option<Box<RawValue>>,
}

/// Body of [`crate::record::RecordType::ClientResponse`]: written before the answer is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClientResponse {
    /// Which request.
    pub call: u64,
    /// Its method.
    pub method: String,
    /// What is known of its outcome.
    #[serde(flatten)]
    pub facts: Facts,
    /// Why it failed, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Failure>,
}

/// Small facts about what was done.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Facts {
    /// The file, as the agent named it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// How much was read from it, or written to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// The terminal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terminal_id: Option<String>,
    /// How its command ended, if it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_status: Option<ExitStatus>,
}

/// The error that the agent was answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Failure {
    /// The JSON-RPC code.
    pub code: i32,
    /// What was wrong.
    pub message: String,
}

/// How a command ended: one of both, or neither where that could not be learnt.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ExitStatus {
    /// Its exit code.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(required))]
    pub exit_code: Option<u32>,
    /// The name of the signal that ended it.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(required))]
    pub signal: Option<String>,
}

/// Body of [`crate::record::RecordType::TerminalExited`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TerminalExited {
    /// Which terminal.
    pub terminal_id: String,
    /// How its command ended.
    pub exit_status: ExitStatus,
    /// How much it had printed by then.
    pub output_bytes: u64,
    /// The end of that, at most 4 KiB.
    pub tail: String,
}

/// The `data` of the event of a [`ClientRequest`].
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

/// The `data` of the event of a [`ClientResponse`].
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

/// The `data` of the event of a [`TerminalExited`].
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
            facts: Facts { path: Some("/w/a".to_owned()), bytes: Some(2), ..Facts::default() },
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
            response.error = Some(Failure { code, message: "m".to_owned() });
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
