//! A worker whose files cannot be used. The actor retries every second and refuses requests with
//! the reason, so that no request waits without a limit.

use std::time::Duration;

use subagent_protocol::{Error, Result};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::supervisor::worker::actor::Actor;
use crate::supervisor::worker::{ActorMessage, RevivalOutcome};

/// Requests wait during a shorter failure and are refused during a longer one.
const PATIENCE: Duration = Duration::from_secs(5);

/// The failure that keeps an actor from serving.
#[derive(Debug)]
pub(crate) struct Blocked {
    since: Instant,
    error: Error,
}

impl Blocked {
    /// Returns whether it has lasted long enough to refuse requests.
    pub(crate) fn is_overdue(&self) -> bool {
        self.since.elapsed() >= PATIENCE
    }
}

impl Actor {
    /// Stores the latest error, and keeps the time of the first one.
    pub(crate) fn is_blocked(&mut self, error: Error) {
        let since = self.blocked.as_ref().map_or_else(Instant::now, |blocked| blocked.since);
        self.blocked = Some(Blocked { since, error });
    }

    /// Returns why a worker without a connected runtime cannot go on: its runtime cannot be
    /// reached, or its end cannot be stored.
    pub(crate) fn obstacle(&self) -> Option<Error> {
        let gone = self.runtime.as_ref().is_none_or(|runtime| runtime.ended);
        let blocked = self.blocked.as_ref().filter(|_| gone)?;
        Some(blocked.error.clone())
    }

    /// Answers a message with the error.
    pub(crate) fn refuse_message(&self, message: ActorMessage) {
        match message {
            ActorMessage::Order(order) => self.refuse(order.reply),
            ActorMessage::Set(order) => self.refuse(order.reply),
            ActorMessage::Limits(order) => self.refuse(order.reply),
            ActorMessage::CancelChild(order) => self.refuse(order.reply),
            ActorMessage::Revive { reply, .. } => {
                // The client may be gone.
                let _ = reply.send(RevivalOutcome::Needless);
            }
            ActorMessage::Forbidden { what } => {
                tracing::error!(worker = %self.worker_id, what, "a refused request could not be journaled");
            }
        }
    }

    /// Answers a request with the error.
    fn refuse<T>(&self, reply: oneshot::Sender<Result<T>>) {
        let Some(Blocked { error, .. }) = &self.blocked else { return };
        let mut error = error.clone().with("workerId", self.worker_id.as_str()).retryable();
        if !error.details.contains_key("recommendedAction") {
            error = error.recommend("look at `subagent doctor`; the daemon tries again every second");
        }
        // The client may be gone.
        let _ = reply.send(Err(error));
    }
}
