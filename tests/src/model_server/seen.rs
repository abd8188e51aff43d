//! What the server was asked, for tests to look at. It does not interpret anything.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use axum::http::Uri;
use serde_json::Value;

use super::script::Turn;

/// One request as it arrived.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelRequest {
    /// The path of the request, without the query.
    pub path: String,
    /// The body; null when there was none or it was not read.
    pub body: Value,
    /// What it was about.
    pub asked: Asked,
}

/// What a request wanted of the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Asked {
    /// An answer to the user's text, in a stream.
    Prompt {
        /// The last text of the user.
        text: String,
    },
    /// To go on in the stream of answers, now that the tool has returned.
    ToolResult {
        /// What the tool returned, as text.
        output: String,
    },
    /// Something beside the conversation: routing, counting, a summary.
    Aside,
    /// Nothing that this server knows.
    Unknown,
}

impl Asked {
    /// What a request is about that wants the conversation to go on.
    pub(super) fn of(turn: &Turn) -> Self {
        match turn {
            Turn::User(text) => Self::Prompt { text: text.clone() },
            Turn::ToolReturned(output) => Self::ToolResult { output: output.clone() },
        }
    }
}

/// The log of requests.
#[derive(Debug, Default)]
pub(super) struct Seen(Mutex<Vec<ModelRequest>>);

/// An id that no other answer of this process has.
pub(super) fn id(kind: &str) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    format!("{kind}_{:08}", NEXT.fetch_add(1, Ordering::Relaxed))
}

impl Seen {
    /// The body of a request, which is kept together with what it asks for.
    pub(super) fn read(
        &self,
        uri: &Uri,
        body: &[u8],
        asked: impl FnOnce(&Value) -> Asked,
    ) -> Result<Value, String> {
        let path = uri.path().to_owned();
        match serde_json::from_slice(body) {
            Ok(body) => {
                let asked = asked(&body);
                self.add(ModelRequest { path, body: body.clone(), asked });
                Ok(body)
            }
            Err(error) => {
                self.add(ModelRequest { path, body: Value::Null, asked: Asked::Unknown });
                Err(format!("the body is not JSON: {error}"))
            }
        }
    }

    pub(super) fn add(&self, request: ModelRequest) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(request);
    }

    pub(super) fn all(&self) -> Vec<ModelRequest> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
