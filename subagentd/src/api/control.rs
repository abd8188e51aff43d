//! The link between the API and the daemon's life: stop requests go one way, "end what you are doing" the other.
//!
//! Must not end anything itself.

use subagent_protocol::{Code, Error, Result};
use tokio::sync::{mpsc, oneshot, watch};

/// More stop requests than this at once are refused; one is enough.
const MOST_STOP_REQUESTS: usize = 16;

/// How far the end of the daemon has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// It serves.
    Open,
    /// Waits and followed events end; other requests get a moment to finish.
    EndWaits,
    /// Every request but the one to stop ends.
    EndAll,
}

/// Somebody asks the daemon to end.
#[derive(Debug)]
pub struct StopRequest {
    /// Also stop all workers.
    pub workers: bool,
    /// Told when the supervisor is done; the daemon ends right after.
    pub done: oneshot::Sender<Result<()>>,
}

/// The API's end of the link. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Control {
    stop: mpsc::Sender<StopRequest>,
    phase: watch::Receiver<Phase>,
}

/// Makes the link: the API's end, and what the daemon's life keeps of it.
#[must_use]
pub fn control() -> (Control, mpsc::Receiver<StopRequest>, watch::Sender<Phase>) {
    let (stop, requests) = mpsc::channel(MOST_STOP_REQUESTS);
    let (phases, phase) = watch::channel(Phase::Open);
    (Control { stop, phase }, requests, phases)
}

impl Control {
    /// Ends when the daemon's end has come this far (or its life has ended altogether).
    pub(super) async fn reached(&self, phase: Phase) {
        // An error means that the sender is gone, and with it the reason to go on.
        let _ = self.phase.clone().wait_for(|now| *now >= phase).await;
    }

    /// Asks the daemon to end and waits until the supervisor has finished.
    pub(super) async fn stop(&self, workers: bool) -> Result<()> {
        let (done, outcome) = oneshot::channel();
        self.stop.try_send(StopRequest { workers, done }).map_err(|_| ending())?;
        outcome.await.map_err(|_| ending())?
    }
}

/// What requests get that the end of the daemon cuts short.
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
        let waiting = tokio::spawn(async move { later.reached(Phase::EndAll).await });
        phases.send_replace(Phase::EndWaits);
        control.reached(Phase::EndWaits).await;
        assert!(!waiting.is_finished());
        phases.send_replace(Phase::EndAll);
        waiting.await.unwrap();
    }

    #[tokio::test]
    async fn the_end_of_the_daemons_life_ends_everything() {
        let (control, requests, phases) = control();
        drop((requests, phases));
        control.reached(Phase::EndAll).await;
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
