//! Connects the API with the daemon's lifecycle: it sends stop requests and receives the phase of
//! the shutdown.
//! It must not stop anything itself.

use subagent_protocol::{Code, Error, Result};
use tokio::sync::{mpsc, oneshot, watch};

/// Maximum number of simultaneous stop requests; further ones are refused.
const MAX_STOP_REQUESTS: usize = 16;

/// The progress of the daemon's shutdown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ShutdownPhase {
    /// The daemon serves all requests.
    Open,
    /// Waits and event streams end; other requests may finish.
    EndWaits,
    /// All requests end except the stop request.
    EndAll,
}

/// A request to stop the daemon.
#[derive(Debug)]
pub(crate) struct StopRequest {
    /// Whether all workers are stopped too.
    pub workers: bool,
    /// Receives the result when the supervisor has finished. The daemon exits right after.
    pub done: oneshot::Sender<Result<()>>,
}

/// The API's end of the connection. A clone is cheap.
#[derive(Debug, Clone)]
pub(crate) struct Control {
    stop: mpsc::Sender<StopRequest>,
    phase: watch::Receiver<ShutdownPhase>,
}

/// Creates the API's end, the receiver of stop requests and the sender of phases.
#[must_use]
pub(crate) fn control() -> (Control, mpsc::Receiver<StopRequest>, watch::Sender<ShutdownPhase>) {
    let (stop, requests) = mpsc::channel(MAX_STOP_REQUESTS);
    let (phases, phase) = watch::channel(ShutdownPhase::Open);
    (Control { stop, phase }, requests, phases)
}

impl Control {
    /// Waits until the shutdown has reached this phase, or the sender is gone.
    pub(super) async fn reached(&self, phase: ShutdownPhase) {
        // An error means that the sender is gone, which counts as the last phase.
        let _ = self.phase.clone().wait_for(|now| *now >= phase).await;
    }

    /// Requests the stop and waits until the supervisor has finished.
    pub(super) async fn stop(&self, workers: bool) -> Result<()> {
        let (done, outcome) = oneshot::channel();
        self.stop.try_send(StopRequest { workers, done }).map_err(|_| ending())?;
        outcome.await.map_err(|_| ending())?
    }
}

/// Returns the error for requests that the shutdown interrupts.
pub(super) fn ending() -> Error {
    Error::new(Code::DaemonNotRunning, "the daemon is stopping, so this request was not answered")
        .retryable()
        .recommend(
            "Ask again: the next daemon answers, from the same event or with the same Idempotency-Key.",
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn phases_are_reached_in_order() {
        let (control, _requests, phases) = control();
        let later = control.clone();
        let waiting = tokio::spawn(async move { later.reached(ShutdownPhase::EndAll).await });
        phases.send_replace(ShutdownPhase::EndWaits);
        control.reached(ShutdownPhase::EndWaits).await;
        assert!(!waiting.is_finished());
        phases.send_replace(ShutdownPhase::EndAll);
        waiting.await.unwrap();
    }

    #[tokio::test]
    async fn the_end_of_the_daemons_life_ends_everything() {
        let (control, requests, phases) = control();
        drop((requests, phases));
        control.reached(ShutdownPhase::EndAll).await;
        assert_eq!(control.stop(false).await.unwrap_err().code, Code::DaemonNotRunning);
    }

    #[tokio::test]
    async fn a_stop_is_answered_by_the_daemons_life() {
        let (control, mut requests, _phases) = control();
        let asked = tokio::spawn(async move { control.stop(true).await });
        let request = requests.recv().await.unwrap();
        assert!(request.workers);
        request.done.send(Err(Error::new(Code::StopIncomplete, "x"))).unwrap();
        assert_eq!(asked.await.unwrap().unwrap_err().code, Code::StopIncomplete);
    }
}
