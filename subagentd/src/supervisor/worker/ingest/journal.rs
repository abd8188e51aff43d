//! How far the actor has read the journal, what it found, and what keeps it from reading on.

use std::time::Duration;

use subagent_protocol::Error;
use subagent_protocol::ids::WorkerId;
use tokio::time::Instant;

use crate::store::Cursor;
use crate::supervisor::runtimes::journal::JournalReader;
use crate::supervisor::worker::STORE_RETRY;

/// Requests wait during a shorter failure and are refused during a longer one.
const PATIENCE: Duration = Duration::from_secs(5);

/// The failure that keeps an actor from serving.
#[derive(Debug)]
struct Blocked {
    since: Instant,
    error: Error,
}

/// The position in the journal of a worker.
pub(crate) struct JournalIntake {
    pub(crate) reader: JournalReader,
    pub(crate) cursor: Cursor,
    /// Whether a part of this runtime's journal was unreadable.
    pub(crate) damaged: bool,
    /// Number of unreadable records since this daemon started.
    pub(crate) misread: u64,
    /// Whether records of this worker are missing.
    pub(crate) gap: bool,
    /// Whether the journal contains records that were not read.
    pub(crate) more: bool,
    /// When to read the journal again after a failure of the store.
    pub(crate) retry: Option<Instant>,
    /// The failure that repeats, if there is one.
    blocked: Option<Blocked>,
}

impl JournalIntake {
    pub(crate) fn new(reader: JournalReader, cursor: Cursor) -> Self {
        Self {
            reader,
            cursor,
            damaged: false,
            misread: 0,
            gap: false,
            more: false,
            retry: None,
            blocked: None,
        }
    }

    /// Stores the latest error, and keeps the time of the first one.
    pub(crate) fn is_blocked(&mut self, error: Error) {
        let since = self.blocked.as_ref().map_or_else(Instant::now, |blocked| blocked.since);
        self.blocked = Some(Blocked { since, error });
    }

    /// Like [`Self::is_blocked`], with another attempt.
    pub(crate) fn retry_later(&mut self, error: Error) {
        self.retry = Some(Instant::now() + STORE_RETRY);
        self.is_blocked(error);
    }

    /// Records that the failure is over.
    pub(crate) fn is_free(&mut self) {
        self.blocked = None;
    }

    /// Returns the failure that repeats.
    pub(crate) fn obstacle(&self) -> Option<&Error> {
        self.blocked.as_ref().map(|blocked| &blocked.error)
    }

    /// Returns the error for requests, if the failure has lasted long enough to refuse them.
    pub(crate) fn refusal(&self, worker: &WorkerId) -> Option<Error> {
        let blocked = self.blocked.as_ref().filter(|blocked| blocked.since.elapsed() >= PATIENCE)?;
        let error = blocked.error.clone().with("workerId", worker.as_str()).retryable();
        Some(if error.details.contains_key("recommendedAction") {
            error
        } else {
            error.recommend("look at `subagent doctor`; the daemon tries again every second")
        })
    }
}
