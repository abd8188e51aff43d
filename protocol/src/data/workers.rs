//! The `data` of events about a worker's runtime and session.

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::record::SessionOrigin;
use crate::time::Timestamp;

/// The agent has a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct SessionOpened {
    /// How the session was opened.
    pub session: SessionOrigin,
    /// Whether an earlier session was requested and could not be restored.
    pub context_lost: bool,
    /// Why it could not, in the agent's terms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_lost_reason: Option<String>,
    /// Whether the worker hibernated before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hibernated: Option<bool>,
    /// Duration of the resume in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub took_ms: Option<u64>,
}

/// The agent of an idle worker has ended; its session is resumed when needed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Hibernated {
    /// Seconds without an open turn or request.
    pub idle_seconds: u64,
}

/// The reason for an event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Because {
    /// The reason as text.
    pub reason: String,
}

/// A placed worker that is not reached. It may go on: this says nothing about its runtime.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct UnreachableState {
    /// Since when its place has not answered.
    pub since: Timestamp,
    /// When its place was last heard; absent if this daemon has never heard it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_heard: Option<Timestamp>,
    /// The error of the newest attempt to reach it; absent while the first one goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Error>,
}

/// A worker whose next runtime waits for its place in an engine's queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct PendingPlace {
    /// Since when this daemon has waited.
    pub since: Timestamp,
    /// Kind of the placement.
    pub engine: String,
    /// The engine's id of the place, such as the number of a job.
    pub handle: String,
    /// The engine's reason, or why it does not answer.
    pub reason: String,
}

/// A placed worker is reached again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Reached {
    /// Since when it was not reached; absent if only an earlier daemon knew.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
}

/// The forbidden request of a process below a worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Forbidden {
    /// Name of the request.
    pub request: String,
}

/// Records of the journal are missing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct JournalGap {
    /// Number of the first missing record.
    pub first_missing: u64,
    /// Number of the last missing record.
    pub last_missing: u64,
}
