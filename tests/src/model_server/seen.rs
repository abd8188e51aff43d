//! Records the requests for tests, and holds a test's reactions to tool results.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use axum::http::Uri;
use serde_json::Value;

use super::script::{self, ModelResponseStep, Turn};

/// One request as it arrived.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelRequest {
    /// The path of the request, without the query.
    pub path: String,
    /// The body; null if there was none or it was not read.
    pub body: Value,
    /// The purpose of the request.
    pub asked: Asked,
}

/// What a request wanted from the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Asked {
    /// A streamed response to the user's text.
    Prompt {
        /// The last text of the user.
        text: String,
    },
    /// A continuation after a tool has returned.
    ToolResult {
        /// The tool's result as text.
        output: String,
    },
    /// A request outside the conversation: routing, counting, a summary.
    Aside,
    /// A request unknown to this server.
    Unknown,
}

impl Asked {
    /// Returns the purpose of a request that continues the conversation.
    pub(super) fn of(turn: &Turn) -> Self {
        match turn {
            Turn::User(text) => Self::Prompt { text: text.clone() },
            Turn::ToolReturned(output) => Self::ToolResult { output: output.clone() },
        }
    }
}

/// Creates a user's text with a directive from a tool result.
pub(super) type Reaction = Box<dyn FnOnce(&str) -> String + Send>;

/// The log of requests.
#[derive(Default)]
pub(super) struct RequestLog {
    requests: Mutex<Vec<ModelRequest>>,
    reactions: Mutex<VecDeque<Reaction>>,
    /// Replacements for user texts that contain certain words.
    meanings: Mutex<Vec<(String, String)>>,
}

impl fmt::Debug for RequestLog {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Seen").field("requests", &self.requests).finish_non_exhaustive()
    }
}

/// Returns an id that is unique in this process.
pub(super) fn id(kind: &str) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    format!("{kind}_{:08}", NEXT.fetch_add(1, Ordering::Relaxed))
}

impl RequestLog {
    /// Parses the body of a request and records it with its purpose.
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
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).push(request);
    }

    pub(super) fn react(&self, reaction: Reaction) {
        self.reactions.lock().unwrap_or_else(PoisonError::into_inner).push_back(reaction);
    }

    pub(super) fn mean(&self, words: &str, text: &str) {
        let meaning = (words.to_owned(), text.to_owned());
        self.meanings.lock().unwrap_or_else(PoisonError::into_inner).push(meaning);
    }

    fn meaning(&self, said: &str) -> Option<String> {
        let meanings = self.meanings.lock().unwrap_or_else(PoisonError::into_inner);
        meanings.iter().find(|(words, _)| said.contains(words)).map(|(_, text)| text.clone())
    }

    /// Returns the response to a turn. Reactions apply to tool results while there are any.
    pub(super) fn answer(&self, turn: &Turn) -> Vec<ModelResponseStep> {
        let reaction = match turn {
            Turn::ToolReturned(_) => {
                self.reactions.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
            }
            Turn::User(_) => None,
        };
        match (reaction, turn) {
            (Some(reaction), Turn::ToolReturned(output)) => script::answer(&Turn::User(reaction(output))),
            (_, Turn::User(said)) => match self.meaning(said) {
                Some(text) => script::answer(&Turn::User(text)),
                None => script::answer(turn),
            },
            _ => script::answer(turn),
        }
    }

    pub(super) fn all(&self) -> Vec<ModelRequest> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
