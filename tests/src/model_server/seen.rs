//! What the server was asked, for tests to look at, and what a test wants the model to do about results of tools.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use axum::http::Uri;
use serde_json::Value;

use super::script::{self, Step, Turn};

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

/// Makes the text of a user, with a directive, of the result of a tool.
pub(super) type Reaction = Box<dyn FnOnce(&str) -> String + Send>;

/// The log of requests.
#[derive(Default)]
pub(super) struct Seen {
    requests: Mutex<Vec<ModelRequest>>,
    reactions: Mutex<VecDeque<Reaction>>,
    /// What stands for a user's text with these words in it.
    meanings: Mutex<Vec<(String, String)>>,
}

impl fmt::Debug for Seen {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Seen").field("requests", &self.requests).finish_non_exhaustive()
    }
}

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

    /// The answer to a turn. To the result of a tool it is the next reaction's, as long as there are any.
    pub(super) fn answer(&self, turn: &Turn) -> Vec<Step> {
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
