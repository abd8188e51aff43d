//! The end of the daemon, step by step, each with a deadline: no new connections, no more waits, what is being answered
//! gets a moment, then the supervisor finishes, and whoever asked for the end is told how it went.

use std::fmt;
use std::time::Duration;

use subagent_protocol::{Code, Error, Result};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::serve::DRAIN_TIME;
use crate::api::{Connections, Phase, StopRequest};
use crate::supervisor::Supervisor;

/// How long requests that are no waits may go on.
const ANSWER_TIME: Duration = Duration::from_secs(2);

/// How long all workers together have to end.
const WORKERS_TIME: Duration = Duration::from_secs(60);

/// Why the daemon ends.
#[derive(Debug)]
pub(super) enum Reason {
    /// A signal.
    Signal(&'static str),
    /// Somebody asked.
    Request(StopRequest),
    /// Nobody needs it.
    Idle,
    /// The lock file is gone or another's: the state dir was removed or is served by another daemon.
    LockLost,
    /// Nobody can find it any more.
    SocketLost,
    /// It cannot serve any more.
    ServerEnded(String),
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Signal(signal) => write!(f, "{signal}"),
            Self::Request(request) if request.workers => write!(f, "a request, workers too"),
            Self::Request(_) => write!(f, "a request"),
            Self::Idle => write!(f, "nobody needs it"),
            Self::LockLost => write!(f, "the state dir is gone or served by another daemon"),
            Self::SocketLost => {
                write!(f, "its socket has vanished and cannot be made again; the log says why")
            }
            Self::ServerEnded(how) => write!(f, "the server ended by itself: {how}"),
        }
    }
}

/// What must be ended.
pub(super) struct Ending {
    pub(super) supervisor: Supervisor,
    pub(super) connections: Connections,
    pub(super) stops: mpsc::Receiver<StopRequest>,
    pub(super) phases: watch::Sender<Phase>,
    pub(super) stop_accepting: oneshot::Sender<()>,
    pub(super) serving: JoinHandle<std::io::Result<()>>,
}

/// Ends everything.
///
/// # Errors
/// The supervisor's, or why the daemon could not go on; it has ended all the same.
pub(super) async fn end(ending: Ending, reason: Reason) -> Result<()> {
    let Ending { supervisor, mut connections, mut stops, phases, stop_accepting, mut serving } = ending;
    tracing::info!(%reason, "stopping");
    let (cause, mut askers) = match reason {
        Reason::Request(request) => (Ok(()), vec![request]),
        Reason::SocketLost | Reason::ServerEnded(_) => {
            (Err(Error::new(Code::Internal, reason.to_string())), vec![])
        }
        Reason::Signal(_) | Reason::Idle | Reason::LockLost => (Ok(()), vec![]),
    };

    // Nobody listens any more if the server has ended by itself.
    let _ = stop_accepting.send(());
    phases.send_replace(Phase::EndWaits);
    // Whoever asked for the end is answered last.
    let others_are_done = connections.wait_for(|open| *open <= askers.len());
    let _ = timeout(ANSWER_TIME, others_are_done).await;
    phases.send_replace(Phase::EndAll);

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
        // It may have gone away.
        let _ = asker.done.send(outcome.clone());
    }
    // One that has ended was looked at already, and must not be again.
    if !serving.is_finished() && timeout(ANSWER_TIME, &mut serving).await.is_err() {
        // A follower that does not read: its connection ends with the process.
        serving.abort();
    }
    cause.and(outcome)
}
