//! Waiting for several workers at once.

use serde::{Deserialize, Serialize};

use crate::data::workers::UnreachableState;
use crate::event::Event;
use crate::ids::WorkerId;
use crate::state::{WorkerState, words};

/// Maximum number of workers per wait.
pub const MAX_WORKERS: usize = 1000;

words! {
    /// When a wait for several workers ends.
    WaitMode {
        /// When one of them has its event.
        Any = "any",
        /// When each of them has its event.
        All = "all",
    }
}

/// A worker to wait for.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct WaitedFor {
    /// Id of the worker.
    pub worker_id: String,
    /// With `until`: only later events count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_event_id: Option<String>,
}

/// `POST /v1/wait`: waits for several workers.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct WaitMany {
    /// The workers, 1 to 1000.
    pub workers: Vec<WaitedFor>,
    /// Whether to wait for one or all.
    pub mode: WaitMode,
    /// The awaited events, in the syntax of `--until`. If absent, until a worker has no open turn
    /// or its agent asks a question; a present state counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// With `until` and without a cursor: from the beginning instead of from now.
    #[serde(default)]
    pub include_history: bool,
    /// Time limit in seconds; 0: none.
    #[serde(default)]
    pub timeout_seconds: f64,
}

words! {
    /// The result of a wait for one worker.
    WorkerOutcome {
        /// The awaited event has occurred.
        Matched = "matched",
        /// There is nothing to wait for: it has no turn, and never had one.
        Idle = "idle",
        /// Its agent could not be started, or its stored data is invalid.
        Error = "error",
        /// It is stopped, and the event did not occur.
        Stopped = "stopped",
        /// The event has not occurred yet.
        Waiting = "waiting",
    }
}

/// The result of a wait for one worker.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct WaitedWorker {
    /// Id of the worker.
    pub worker_id: WorkerId,
    /// Name of the worker.
    #[serde(default)]
    pub name: String,
    /// Label of the worker.
    pub label: String,
    /// The kind of result.
    pub outcome: WorkerOutcome,
    /// State of the worker now.
    pub state: WorkerState,
    /// Set while its place does not answer: then the state is the last one known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unreachable: Option<UnreachableState>,
    /// With `matched`, the event. Without `until`, that is the end of its last turn
    /// or the open question.
    pub matched_event: Option<Event>,
}

/// Data of the response `workers.waited`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct WaitedMany {
    /// Whether it waited for one or all.
    pub mode: WaitMode,
    /// One item per worker, in the order of the request.
    pub items: Vec<WaitedWorker>,
    /// Number of the workers.
    pub count: usize,
    /// Number of workers that are not `waiting`.
    pub done: usize,
}
