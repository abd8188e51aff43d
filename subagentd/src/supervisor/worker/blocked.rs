//! A worker whose files cannot be used: it is tried again and again, and whoever asks for something is told why nothing
//! is done, instead of waiting without end.

use std::time::Duration;

use subagent_protocol::{Error, Result};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::actor::Actor;

/// What has failed for so long is told; what is shorter is waited for.
const PATIENCE: Duration = Duration::from_secs(5);

/// What keeps an actor from serving.
#[derive(Debug)]
pub(super) struct Blocked {
    since: Instant,
    error: Error,
}

impl Blocked {
    /// Whether it has lasted so long that orders are refused.
    pub(super) fn is_told(&self) -> bool {
        self.since.elapsed() >= PATIENCE
    }
}

impl Actor {
    /// Keeps the latest reason, and since when there is one.
    pub(super) fn is_blocked(&mut self, error: Error) {
        let since = self.blocked.as_ref().map_or_else(Instant::now, |blocked| blocked.since);
        self.blocked = Some(Blocked { since, error });
    }

    /// Says why nothing was done.
    pub(super) fn refuse<T>(&self, reply: oneshot::Sender<Result<T>>) {
        let Some(Blocked { error, .. }) = &self.blocked else { return };
        let mut error = error.clone().with("workerId", self.worker_id.as_str()).retryable();
        if !error.details.contains_key("recommendedAction") {
            error = error.recommend("look at `subagent doctor`; the daemon tries again every second");
        }
        // Whoever asked may have gone.
        let _ = reply.send(Err(error));
    }
}
