//! The signals that end the daemon.

use subagent_protocol::Result;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::error;

/// SIGTERM and SIGINT, from now on no longer deadly.
#[derive(Debug)]
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Begins to listen.
    ///
    /// # Errors
    /// `DAEMON_START_FAILED`.
    pub(super) fn listen() -> Result<Self> {
        let listen =
            |kind| signal(kind).map_err(|cause| error::start_failed("it cannot listen for signals", &cause));
        Ok(Self { terminate: listen(SignalKind::terminate())?, interrupt: listen(SignalKind::interrupt())? })
    }

    /// The next one, by name.
    pub(super) async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}
