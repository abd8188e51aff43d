//! Waits for an event, and continues after lost connections.

use std::sync::OnceLock;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use subagent_protocol::api::WaitRequest;
use subagent_protocol::ids::TurnId;
use subagent_protocol::{Code, lenient};
use tokio::time::Instant;

use super::waited::WaitResponse;
use crate::client::{ApiRequest, DaemonClient, segment};
use crate::failure::{Failure, Result};

/// Maximum delay of a response after the end of its wait.
pub(in crate::client) const GRACE: Duration = Duration::from_secs(10);
/// Minimum duration of a limited wait in seconds (0 is unlimited).
pub(in crate::client) const SHORTEST: f64 = 0.001;

/// The newest event, or none.
#[derive(Deserialize)]
struct Newest {
    event: Option<EventCursor>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct EventCursor {
    event_id: String,
}

/// Returns the id of the event that ended a wait.
#[must_use]
pub fn matched_event(waited: &Value) -> Option<String> {
    /// The part of the answer that says where the next wait begins.
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct Matched {
        matched_event: Option<EventCursor>,
    }
    lenient::read::<Matched>(waited).matched_event.map(|event| event.event_id)
}

/// Returns the event that ended a wait, as it came.
#[must_use]
pub fn into_matched(waited: Value) -> Value {
    let Value::Object(mut waited) = waited else { return Value::Null };
    waited.remove("matchedEvent").unwrap_or_default()
}

/// The start position of a wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WaitStart {
    /// After the event with this id.
    After(String),
    /// From the first event.
    Beginning,
    /// After the newest event.
    Latest,
}

/// A wait of a command.
#[derive(Debug, Clone)]
pub struct WorkerWait {
    /// Id of the worker, unchecked.
    pub worker_id: String,
    /// Event types that end the wait; `None` uses the default set.
    pub until: Option<String>,
    /// Start position of the wait.
    pub cursor: WaitStart,
    /// Timeout in seconds; 0 is unlimited.
    pub timeout: f64,
    /// Timeout without any event in seconds; 0 is unlimited.
    pub no_progress: f64,
    /// The turn whose text the response contains.
    pub collect_turn: Option<TurnId>,
    /// The only turn whose events count; it may be queued.
    pub only_turn: Option<TurnId>,
}

impl DaemonClient {
    /// Waits. The time counts from the first request, including reconnects.
    ///
    /// # Errors
    /// `WAIT_TIMEOUT`, `WAIT_NO_PROGRESS`, and those of [`DaemonClient::ask`].
    pub async fn wait(&mut self, mut waiting: WorkerWait) -> Result<Value> {
        let begun = OnceLock::new();
        // The first value is zero, so that equal limits stay equal.
        let elapsed = || {
            let now = Instant::now();
            now.duration_since(*begun.get_or_init(|| now)).as_secs_f64()
        };
        self.pin(&mut waiting).await?;
        let limit = (waiting.timeout > 0.0).then(|| duration(waiting.timeout) + GRACE);
        let waited: Result<WaitResponse> = self.ask_made(|| Ok(waiting.ask(elapsed())?.within(limit))).await;
        waited.map(Value::from).map_err(|failure| waiting.own_numbers(failure))
    }

    /// Replaces the cursor `Latest` by an event id, so that a repetition starts at the same position.
    ///
    /// # Errors
    /// Those of [`DaemonClient::ask`].
    pub async fn pin(&mut self, waiting: &mut WorkerWait) -> Result<()> {
        if waiting.cursor == WaitStart::Latest {
            let newest = self.newest_event(&waiting.worker_id).await?;
            waiting.cursor = newest.map_or(WaitStart::Beginning, WaitStart::After);
        }
        Ok(())
    }

    /// Returns the id of the worker's newest event; `None` before the first one.
    ///
    /// # Errors
    /// Those of [`DaemonClient::ask`].
    pub async fn newest_event(&mut self, worker: &str) -> Result<Option<String>> {
        self.newest_at(format!("/v1/workers/{}/events/latest", segment(worker))).await
    }

    /// Returns the id of the newest event of all workers; `None` before the first one.
    ///
    /// # Errors
    /// Those of [`DaemonClient::ask`].
    pub async fn newest_of_all(&mut self) -> Result<Option<String>> {
        self.newest_at("/v1/events/latest".to_owned()).await
    }

    async fn newest_at(&mut self, path: String) -> Result<Option<String>> {
        let newest: Newest = self.ask_for(&ApiRequest::get(path)).await?;
        Ok(newest.event.map(|event| event.event_id))
    }
}

impl WorkerWait {
    /// Builds the request after `elapsed` seconds.
    fn ask(&self, elapsed: f64) -> Result<ApiRequest> {
        let left = if self.timeout > 0.0 { (self.timeout - elapsed).max(SHORTEST) } else { 0.0 };
        let request = WaitRequest {
            until: self.until.clone(),
            from_event_id: match &self.cursor {
                WaitStart::After(event_id) => Some(event_id.clone()),
                WaitStart::Beginning | WaitStart::Latest => None,
            },
            include_history: self.cursor == WaitStart::Beginning,
            timeout_seconds: left,
            no_progress_timeout_seconds: self.no_progress,
            collect_turn: self.collect_turn.clone(),
            only_turn: self.only_turn.clone(),
        };
        let wait = (left > 0.0).then(|| duration(left));
        let path = format!("/v1/workers/{}/wait", segment(&self.worker_id));
        Ok(ApiRequest::post(path, &request)?.waiting(wait))
    }

    /// Sets the caller's timeout in the error, not the remaining time of a repetition.
    fn own_numbers(&self, failure: Failure) -> Failure {
        if failure.is(Code::WaitTimeout) { failure.with("timeoutSeconds", self.timeout) } else { failure }
    }
}

/// Converts seconds to a duration of at most a century.
pub(in crate::client) fn duration(seconds: f64) -> Duration {
    // Larger durations overflow an Instant on some systems.
    const LONGEST: f64 = 100.0 * 366.0 * 86_400.0;
    Duration::from_secs_f64(seconds.clamp(0.0, LONGEST))
}
