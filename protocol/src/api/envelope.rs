//! The envelope around every response, and the names of our headers.

use serde::{Deserialize, Serialize};

use crate::error::Error;

/// Names of the HTTP headers that are not HTTP's own.
pub mod header {
    /// The client's protocol number, on every request; the daemon's on every response.
    pub const PROTOCOL: &str = "subagent-protocol";
    /// The key under which the result of a mutating request is kept.
    pub const IDEMPOTENCY_KEY: &str = "idempotency-key";
    /// The owner handle: controller id.
    pub const CONTROLLER_ID: &str = "subagent-controller-id";
    /// The owner handle: epoch.
    pub const CONTROLLER_EPOCH: &str = "subagent-controller-epoch";
    /// The owner handle: token.
    pub const CONTROLLER_TOKEN: &str = "subagent-controller-token";
    /// The state dir that the client means ([`StateFolder`](crate::api::StateFolder) as text); a daemon of another one refuses the request.
    pub const STATE_DIR: &str = "subagent-state-dir";
    /// The token of a task server, which says whose tasks it may give.
    pub const TASK_TOKEN: &str = "x-subagent-task-token";
}

/// The envelope of every response.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Envelope<T> {
    /// Always `v1`.
    pub schema_version: String,
    /// Whether the request was carried out.
    pub ok: bool,
    /// What `data` is; `error` for errors.
    #[serde(rename = "type")]
    pub kind: String,
    /// The result.
    #[serde(default = "Option::default", skip_serializing_if = "Option::is_none")]
    pub data: Option<T>,
    /// What went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Error>,
}

impl<T> Envelope<T> {
    /// The envelope of a result.
    pub fn success(kind: impl Into<String>, data: T) -> Self {
        Self { schema_version: "v1".to_owned(), ok: true, kind: kind.into(), data: Some(data), error: None }
    }

    /// The envelope of an error.
    #[must_use]
    pub fn failure(error: Error) -> Self {
        Self {
            schema_version: "v1".to_owned(),
            ok: false,
            kind: "error".to_owned(),
            data: None,
            error: Some(error),
        }
    }
}
