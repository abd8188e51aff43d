//! One POST to a webhook: the input and output of `subagent-webhook`, as one line of JSON each.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The message to send. It contains secrets, so `Debug` shows no part of it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WebhookPost {
    /// The target URL. The sender has checked that it is allowed.
    pub url: String,
    /// The id of the message, the same for each attempt.
    pub id: String,
    /// Time of this attempt, in seconds since 1970.
    pub timestamp: u64,
    /// Signs the message (Standard Webhooks) if present. The prefix `whsec_` marks
    /// a secret in base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    /// Value of the `Content-Type` header.
    pub content_type: String,
    /// The body of the request.
    pub body: String,
    /// Total time limit for name resolution, connection, request and response, in milliseconds.
    pub timeout_ms: u64,
}

impl fmt::Debug for WebhookPost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebhookPost").field("id", &self.id).finish_non_exhaustive()
    }
}

/// The result of a post.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum WebhookAnswer {
    /// The server has responded.
    Status {
        /// The HTTP status code.
        status: u16,
        /// `Retry-After`, in seconds, if the server sent a number.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry_after: Option<u64>,
    },
    /// There was no response.
    Failed {
        /// The reason, without the URL or a secret.
        error: String,
    },
    /// The post was not sent and never will be: the secret cannot sign.
    Refused {
        /// Reason for the refusal.
        error: String,
    },
}
