//! Waiting for several workers at once.

use serde::{Deserialize, Serialize};

use crate::event::Event;
use crate::ids::WorkerId;
use crate::state::{WorkerState, words};

/// The most workers of one wait.
pub const MOST_WORKERS: usize = 1000;

words! {
    /// When a wait for several workers is over.
    WaitMode {
        /// When something happened to one of them.
        Any = "any",
        /// When something happened to each of them.
        All = "all",
    }
}

/// A worker that is waited for.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct WaitedFor {
    /// Which one.
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
    /// Which ones, 1 to 1000.
    pub workers: Vec<WaitedFor>,
    /// For one of them or each.
    pub mode: WaitMode,
    /// For which events, in the words of `--until`. Without it a worker is waited for until no turn of it is open, or its
    /// agent asks something: what is so already counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// With `until` and without a cursor: from the beginning instead of from now.
    #[serde(default)]
    pub include_history: bool,
    /// How long, in seconds; 0 for ever.
    #[serde(default)]
    pub timeout_seconds: f64,
}

words! {
    /// What a wait found of a worker.
    WorkerOutcome {
        /// The event that was waited for.
        Matched = "matched",
        /// Nothing is to be waited for: it has no turn, and never had one.
        Idle = "idle",
        /// Its agent could not be started, or what is stored of it cannot be used.
        Error = "error",
        /// It is stopped, and the event did not come.
        Stopped = "stopped",
        /// It has not come so far.
        Waiting = "waiting",
    }
}

/// What a wait found of a worker.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct WaitedWorker {
    /// Which one.
    pub worker_id: WorkerId,
    /// What it is called.
    #[serde(default)]
    pub name: String,
    /// Its label.
    pub label: String,
    /// What was found.
    pub outcome: WorkerOutcome,
    /// Its state now.
    pub state: WorkerState,
    /// With `matched` the event: without `until` the end of its last turn, or the question that is open.
    pub matched_event: Option<Event>,
}

/// Data of `workers.waited`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct WaitedMany {
    /// For one of them or each.
    pub mode: WaitMode,
    /// One for each worker, in the order of the request.
    pub items: Vec<WaitedWorker>,
    /// How many.
    pub count: usize,
    /// How many of them are not `waiting`.
    pub done: usize,
}
