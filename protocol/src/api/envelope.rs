//! The envelope of every response, and our header names.

use serde::{Deserialize, Serialize};

use crate::error::Error;

/// Names of the HTTP headers defined by this API.
pub mod header {
    /// The client's protocol number on requests, and the daemon's on responses.
    pub const PROTOCOL: &str = "subagent-protocol";
    /// The key under which the result of a mutating request is stored.
    pub const IDEMPOTENCY_KEY: &str = "idempotency-key";
    /// Controller id of the owner handle.
    pub const CONTROLLER_ID: &str = "subagent-controller-id";
    /// Epoch of the owner handle.
    pub const CONTROLLER_EPOCH: &str = "subagent-controller-epoch";
    /// Token of the owner handle.
    pub const CONTROLLER_TOKEN: &str = "subagent-controller-token";
    /// The state directory that the client means ([`StateFolder`](crate::api::StateFolder) as
    /// text). The daemon of another one refuses the request.
    pub const STATE_DIR: &str = "subagent-state-dir";
    /// The processes for which another one passes the request on, as `PID:START_TIME`, separated by commas. A request from below
    /// a worker stays one: it may do what all of them may, and the process that sends it.
    pub const ON_BEHALF_OF: &str = "subagent-on-behalf-of";
    /// The token of a task server, which identifies the parent of its tasks.
    pub const TASK_TOKEN: &str = "x-subagent-task-token";
}

/// The envelope of every response.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Envelope<T> {
    /// The schema version, always `v1`.
    pub schema_version: String,
    /// Whether the request succeeded.
    pub ok: bool,
    /// The type of `data`; `error` for errors.
    #[serde(rename = "type")]
    pub kind: String,
    /// The result of a success.
    #[serde(default = "Option::default", skip_serializing_if = "Option::is_none")]
    pub data: Option<T>,
    /// The error of a failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Error>,
}

impl<T> Envelope<T> {
    /// Creates the envelope of a result.
    pub fn success(kind: impl Into<String>, data: T) -> Self {
        Self { schema_version: "v1".to_owned(), ok: true, kind: kind.into(), data: Some(data), error: None }
    }

    /// Creates the envelope of an error.
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
