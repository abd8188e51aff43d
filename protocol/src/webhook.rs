//! One POST to a webhook: what `subagent-webhook` reads from its standard input and writes to its standard output, as
//! one line of JSON each.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What to send. It holds secrets, so `Debug` shows no part of it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WebhookPost {
    /// Where to. The sender has checked that it is allowed.
    pub url: String,
    /// The id of the message, the same for each attempt.
    pub id: String,
    /// When this attempt was made, in seconds since 1970.
    pub timestamp: u64,
    /// Signs the message (Standard Webhooks) if it is there. `whsec_` begins a secret in base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    /// The `Content-Type`.
    pub content_type: String,
    /// The body.
    pub body: String,
    /// How long name resolution, connection, request and answer may take together, in milliseconds.
    pub timeout_ms: u64,
}

impl fmt::Debug for WebhookPost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebhookPost").field("id", &self.id).finish_non_exhaustive()
    }
}

/// What became of a post.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum WebhookAnswer {
    /// The server answered.
    Status {
        /// The HTTP status.
        status: u16,
        /// `Retry-After`, in seconds, if the server sent a number.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry_after: Option<u64>,
    },
    /// There was no answer.
    Failed {
        /// Why. It names neither the URL nor a secret.
        error: String,
    },
    /// The post was not sent, and never will be: the secret cannot sign.
    Refused {
        /// Why.
        error: String,
    },
}
