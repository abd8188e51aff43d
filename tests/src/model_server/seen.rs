//! What the server was asked, for tests to look at. It does not interpret anything.

use std::sync::{Mutex, PoisonError};

use serde_json::Value;

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

/// The log of requests.
#[derive(Debug, Default)]
pub(super) struct Seen(Mutex<Vec<ModelRequest>>);

impl Seen {
    pub(super) fn add(&self, request: ModelRequest) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(request);
    }

    pub(super) fn all(&self) -> Vec<ModelRequest> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
