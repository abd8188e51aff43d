//! Stops the daemon in steps with deadlines: no new connections, waits end, pending answers, then
//! the supervisor. Clients that requested the stop get its result last.

use std::fmt;
use std::time::Duration;

use subagent_protocol::{Code, Error, Result};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::serve::DRAIN_TIME;
use crate::api::{Connections, ShutdownPhase, StopRequest};
use crate::supervisor::Supervisor;

/// Maximum time for pending requests other than waits.
const ANSWER_TIME: Duration = Duration::from_secs(2);

/// Maximum time for all workers together to end.
const WORKERS_TIME: Duration = Duration::from_secs(60);

/// The reason of the daemon's end.
#[derive(Debug)]
pub(super) enum Reason {
    /// A signal with this name.
    Signal(&'static str),
    Request(StopRequest),
    Idle,
    /// The lock file is missing or replaced: the state dir was removed, or another daemon serves
    /// it.
    LockLost,
    /// Clients cannot find the socket.
    SocketLost,
    /// The HTTP server failed.
    ServerEnded(String),
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Signal(signal) => write!(f, "{signal}"),
            Self::Request(request) if request.workers => write!(f, "a request, workers too"),
            Self::Request(_) => write!(f, "a request"),
            Self::Idle => write!(f, "it is idle"),
            Self::LockLost => write!(f, "the state dir is gone or served by another daemon"),
            Self::SocketLost => {
                write!(f, "its socket has vanished and cannot be made again; the log says why")
            }
            Self::ServerEnded(how) => write!(f, "the server ended by itself: {how}"),
        }
    }
}

/// The parts of the daemon to stop.
pub(super) struct ShutdownHandles {
    pub(super) supervisor: Supervisor,
    pub(super) connections: Connections,
    pub(super) stops: mpsc::Receiver<StopRequest>,
    pub(super) phases: watch::Sender<ShutdownPhase>,
    pub(super) stop_accepting: oneshot::Sender<()>,
    pub(super) serving: JoinHandle<std::io::Result<()>>,
}

/// Stops all parts of the daemon.
///
/// # Errors
/// The supervisor's error, or the failure that made the daemon end. It has stopped in any case.
pub(super) async fn end(ending: ShutdownHandles, reason: Reason) -> Result<()> {
    let ShutdownHandles { supervisor, mut connections, mut stops, phases, stop_accepting, mut serving } =
        ending;
    tracing::info!(%reason, "stopping");
    let (cause, mut askers) = match reason {
        Reason::Request(request) => (Ok(()), vec![request]),
        Reason::SocketLost | Reason::ServerEnded(_) => {
            (Err(Error::new(Code::Internal, reason.to_string())), vec![])
        }
        Reason::Signal(_) | Reason::Idle | Reason::LockLost => (Ok(()), vec![]),
    };

    // The receiver is gone if the server ended by itself.
    let _ = stop_accepting.send(());
    phases.send_replace(ShutdownPhase::EndWaits);
    // Clients that requested the stop are answered last.
    let others_are_done = async {
        while *connections.borrow_and_update() > askers.len() {
            tokio::select! {
                Some(request) = stops.recv() => askers.push(request),
                changed = connections.changed() => if changed.is_err() { return },
            }
        }
    };
    let _ = timeout(ANSWER_TIME, others_are_done).await;
    phases.send_replace(ShutdownPhase::EndAll);

    while let Ok(request) = stops.try_recv() {
        askers.push(request);
    }
    let workers = askers.iter().any(|request| request.workers);
    let time = if workers { WORKERS_TIME } else { DRAIN_TIME };
    let outcome = timeout(time, supervisor.shutdown(workers)).await.unwrap_or_else(|_| {
        let message = format!("the daemon did not finish within {} s and ended without", time.as_secs());
        Err(Error::new(if workers { Code::StopIncomplete } else { Code::StorageError }, message))
    });
    stops.close();
    while let Ok(request) = stops.try_recv() {
        askers.push(request);
    }
    for asker in askers {
        // The client may have disconnected.
        let _ = asker.done.send(outcome.clone());
    }
    // A finished task was polled already and must not be polled again.
    if !serving.is_finished() && timeout(ANSWER_TIME, &mut serving).await.is_err() {
        // A follower does not read; its connection ends with the process.
        serving.abort();
    }
    cause.and(outcome)
}
