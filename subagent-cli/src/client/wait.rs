//! Waiting for an event over any number of lost connections.

use std::sync::OnceLock;
use std::time::Duration;

use serde_json::Value;
use subagent_protocol::Code;
use subagent_protocol::api::WaitRequest;
use subagent_protocol::ids::TurnId;
use tokio::time::Instant;

use super::waited::Waited;
use super::{Ask, Client, segment};
use crate::failure::{Failure, Result};

/// How much later than a wait's own end its answer may come.
pub(super) const GRACE: Duration = Duration::from_secs(10);
/// The shortest wait that has an end (0 has none), in seconds.
pub(super) const SHORTEST: f64 = 0.001;

/// From where a wait looks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cursor {
    /// After this event.
    After(String),
    /// From the first event on.
    Beginning,
    /// After the newest event.
    Latest,
}

/// A wait as a command wants it.
#[derive(Debug, Clone)]
pub struct Waiting {
    /// The worker, unchecked.
    pub worker_id: String,
    /// What for; `None` is the default set.
    pub until: Option<String>,
    /// From where.
    pub cursor: Cursor,
    /// How long, in seconds; 0 for ever.
    pub timeout: f64,
    /// How long without any event, in seconds; 0 for ever.
    pub no_progress: f64,
    /// The turn whose text is wanted.
    pub collect_turn: Option<TurnId>,
    /// Whether only events of this turn count, which may wait in the queue.
    pub only_turn: Option<TurnId>,
}

impl Client {
    /// Waits. The time runs from the first request, also over lost connections.
    ///
    /// # Errors
    /// `WAIT_TIMEOUT`, `WAIT_NO_PROGRESS`, and those of [`Client::ask`].
    pub async fn wait(&mut self, mut waiting: Waiting) -> Result<Value> {
        let begun = OnceLock::new();
        // Nothing at first: two limits that are equal stay so.
        let elapsed = || {
            let now = Instant::now();
            now.duration_since(*begun.get_or_init(|| now)).as_secs_f64()
        };
        self.pin(&mut waiting).await?;
        let limit = (waiting.timeout > 0.0).then(|| duration(waiting.timeout) + GRACE);
        let waited: Result<Waited> = self.ask_made(|| Ok(waiting.ask(elapsed())?.within(limit))).await;
        waited.map(Value::from).map_err(|failure| waiting.own_numbers(failure))
    }

    /// Makes a cursor of "from now on", so that a repetition after a lost connection begins at the same place.
    ///
    /// # Errors
    /// Those of [`Client::ask`].
    pub async fn pin(&mut self, waiting: &mut Waiting) -> Result<()> {
        if waiting.cursor == Cursor::Latest {
            let path = format!("/v1/workers/{}/events/latest", segment(&waiting.worker_id));
            let latest = self.ask(&Ask::get(path)).await?;
            waiting.cursor = match latest["event"]["eventId"].as_str() {
                Some(event_id) => Cursor::After(event_id.to_owned()),
                None => Cursor::Beginning,
            };
        }
        Ok(())
    }
}

impl Waiting {
    /// The request after `elapsed` seconds.
    fn ask(&self, elapsed: f64) -> Result<Ask> {
        let left = if self.timeout > 0.0 { (self.timeout - elapsed).max(SHORTEST) } else { 0.0 };
        let request = WaitRequest {
            until: self.until.clone(),
            from_event_id: match &self.cursor {
                Cursor::After(event_id) => Some(event_id.clone()),
                Cursor::Beginning | Cursor::Latest => None,
            },
            include_history: self.cursor == Cursor::Beginning,
            timeout_seconds: left,
            no_progress_timeout_seconds: self.no_progress,
            collect_turn: self.collect_turn.clone(),
            only_turn: self.only_turn.clone(),
        };
        Ask::post(format!("/v1/workers/{}/wait", segment(&self.worker_id)), &request)
    }

    /// The error with the time that the caller had given, not with what a repetition had left of it.
    fn own_numbers(&self, failure: Failure) -> Failure {
        if failure.is(Code::WaitTimeout) { failure.with("timeoutSeconds", self.timeout) } else { failure }
    }
}

/// Seconds as a duration; what is too long for one is as good as for ever.
pub(super) fn duration(seconds: f64) -> Duration {
    // A century: longer ones cannot be added to a point in time everywhere.
    const LONGEST: f64 = 100.0 * 366.0 * 86_400.0;
    Duration::from_secs_f64(seconds.clamp(0.0, LONGEST))
}
