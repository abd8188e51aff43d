//! Reads and writes JSON-RPC lines. It must not interpret messages.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::fd::AsFd;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use subagent_protocol::json::extend;

use super::options::Dialect;
use super::updates;

/// Size of the output buffer in bytes.
const BUFFER: usize = 64 * 1024;

/// The id of a request as the client spelled it, for an identical response.
pub(super) type RequestId = Box<RawValue>;

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct RpcError {
    pub(super) code: i64,
    #[serde(default)]
    pub(super) message: String,
    #[serde(default)]
    pub(super) data: Value,
}

impl RpcError {
    pub(super) fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: Value::Null }
    }

    pub(super) fn invalid_request(message: impl Into<String>) -> Self {
        Self::new(-32600, message)
    }

    pub(super) fn invalid_params(message: impl Into<String>) -> Self {
        Self::new(-32602, message)
    }

    /// Creates a rate limit error with a retry delay in milliseconds, if known.
    pub(super) fn limited(retry_after_ms: Option<u64>) -> Self {
        let mut data = json!({"errorKind": "rate_limit"});
        if let Some(millis) = retry_after_ms {
            extend(&mut data, [("retryAfterMs", millis.into())]);
        }
        Self { data, ..Self::new(-32603, "Rate limit reached") }
    }

    pub(super) fn internal(message: impl Into<String>) -> Self {
        Self::new(-32603, message)
    }
}

/// One line from the client.
#[derive(Debug)]
pub(super) enum Incoming {
    Request {
        id: RequestId,
        method: String,
        params: Value,
    },
    Notification {
        method: String,
        params: Value,
    },
    /// The response to one of our requests. Our ids are numbers; any other id becomes `None`.
    Response {
        id: Option<u64>,
        result: Result<Value, RpcError>,
    },
    /// A line that is not a JSON-RPC message.
    Invalid(RpcError),
}

#[derive(Deserialize)]
struct IncomingEnvelope {
    id: Option<Box<RawValue>>,
    method: Option<String>,
    params: Option<Value>,
    result: Option<Value>,
    error: Option<RpcError>,
}

/// Parses one line. A bad line becomes [`Incoming::Invalid`].
pub(super) fn parse(line: &[u8]) -> Incoming {
    let envelope: IncomingEnvelope = match serde_json::from_slice(line) {
        Ok(envelope) if line.trim_ascii_start().starts_with(b"{") => envelope,
        Ok(_) => return Incoming::Invalid(RpcError::invalid_request("a message must be an object")),
        Err(error) if error.is_data() => {
            return Incoming::Invalid(RpcError::invalid_request(format!("invalid request: {error}")));
        }
        Err(error) => return Incoming::Invalid(RpcError::new(-32700, format!("parse error: {error}"))),
    };
    let params = envelope.params.unwrap_or(Value::Null);
    match (envelope.method, envelope.id) {
        (Some(method), Some(id)) => Incoming::Request { id, method, params },
        (Some(method), None) => Incoming::Notification { method, params },
        (None, id) => Incoming::Response {
            id: id.and_then(|id| id.get().parse().ok()),
            result: match envelope.error {
                Some(error) => Err(error),
                None => Ok(envelope.result.unwrap_or(Value::Null)),
            },
        },
    }
}

/// The agent's stdout: buffered; callers flush it before they wait.
pub(super) struct AgentStdout {
    to: BufWriter<File>,
    dialect: Dialect,
}

impl AgentStdout {
    /// Opens this process's stdout. No other code may write there.
    pub(super) fn stdout(dialect: Dialect) -> io::Result<Self> {
        let stdout = io::stdout().as_fd().try_clone_to_owned()?;
        Ok(Self { to: BufWriter::with_capacity(BUFFER, File::from(stdout)), dialect })
    }

    /// Writes bytes without a conversion.
    pub(super) fn raw(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.to.write_all(bytes)
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }

    pub(super) fn result(&mut self, id: &RawValue, result: &Value) -> io::Result<()> {
        self.line(&json!({"jsonrpc": "2.0", "id": id, "result": result}))
    }

    pub(super) fn error(&mut self, id: Option<&RawValue>, error: &RpcError) -> io::Result<()> {
        let mut object = json!({"code": error.code, "message": error.message});
        if !error.data.is_null() {
            extend(&mut object, [("data", error.data.clone())]);
        }
        self.line(&json!({"jsonrpc": "2.0", "id": id, "error": object}))
    }

    pub(super) fn request(&mut self, id: u64, method: &str, params: &Value) -> io::Result<()> {
        self.line(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
    }

    pub(super) fn notification(&mut self, method: &str, params: &Value) -> io::Result<()> {
        self.line(&json!({"jsonrpc": "2.0", "method": method, "params": params}))
    }

    /// Writes a `session/update` in the agent's dialect.
    pub(super) fn update(&mut self, session: &str, update: Value) -> io::Result<()> {
        let update = updates::in_dialect(update, self.dialect);
        self.notification("session/update", &json!({"sessionId": session, "update": update}))
    }

    /// Returns the text before and after the slot in the line of a message chunk, for fast repeated writes.
    pub(super) fn chunk_frame(&self, session: &str) -> (Vec<u8>, Vec<u8>) {
        const SLOT: &str = "@";
        let update = updates::in_dialect(updates::message(SLOT), self.dialect);
        let params = json!({"sessionId": session, "update": update});
        let line = json!({"jsonrpc": "2.0", "method": "session/update", "params": params}).to_string();
        let slot = format!("\"text\":\"{SLOT}\"");
        // The session id comes first and contains no unescaped quote, so the last match is the slot.
        let at = line.rfind(&slot).map_or(line.len(), |at| at + slot.len() - SLOT.len() - 1);
        let (head, tail) = line.split_at(at);
        let tail = tail.strip_prefix(SLOT).unwrap_or(tail);
        (head.as_bytes().to_vec(), format!("{tail}\n").into_bytes())
    }

    fn line(&mut self, message: &Value) -> io::Result<()> {
        serde_json::to_writer(&mut self.to, message)?;
        self.to.write_all(b"\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_keep_their_spelling() {
        for id in ["0", "1.50", "\"a\\u0041\"", "-7", "18446744073709551616"] {
            let line = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"m"}}"#);
            let Incoming::Request { id: seen, params, .. } = parse(line.as_bytes()) else {
                panic!("{line} is a request")
            };
            assert_eq!(seen.get(), id);
            assert_eq!(params, Value::Null);
        }
    }

    #[test]
    fn kinds_are_distinguished() {
        assert!(matches!(parse(br#"{"method":"x","id":null}"#), Incoming::Notification { .. }));
        assert!(matches!(
            parse(br#"{"id":3,"result":null}"#),
            Incoming::Response { id: Some(3), result: Ok(Value::Null) }
        ));
        let Incoming::Response { id: Some(4), result: Err(error) } =
            parse(br#"{"id":4,"error":{"code":-32601,"message":"no"}}"#)
        else {
            panic!("an error is a response")
        };
        assert_eq!(error, RpcError::new(-32601, "no"));
        assert!(matches!(parse(b"[]"), Incoming::Invalid(RpcError { code: -32600, .. })));
        assert!(matches!(parse(b"{\"id\":"), Incoming::Invalid(RpcError { code: -32700, .. })));
        assert!(matches!(parse(b"hello"), Incoming::Invalid(RpcError { code: -32700, .. })));
    }

    #[test]
    fn a_frame_around_a_text_is_the_line_of_that_text() {
        for dialect in [Dialect::Standard, Dialect::Bare] {
            let output = AgentStdout::stdout(dialect).unwrap();
            let (head, tail) = output.chunk_frame("a@b");
            let line = [head, b"chunk 1 ".to_vec(), tail].concat();
            let value: Value = serde_json::from_slice(&line).unwrap();
            let update = updates::in_dialect(updates::message("chunk 1 "), dialect);
            assert_eq!(value["params"], json!({"sessionId": "a@b", "update": update}));
            assert!(line.ends_with(b"\n"));
        }
    }
}
