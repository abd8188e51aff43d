//! The signals that end the daemon.

use subagent_protocol::Result;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::error;
use crate::or_never::or_never;

/// SIGTERM, SIGINT and SIGHUP, caught from now on.
#[derive(Debug)]
pub(super) struct EndSignals {
    terminate: Signal,
    interrupt: Signal,
    /// `None` if SIGHUP was ignored at the start (`nohup`): it stays ignored.
    hangup: Option<Signal>,
}

impl EndSignals {
    /// Begins to catch the signals.
    ///
    /// # Errors
    /// `DAEMON_START_FAILED`.
    pub(super) fn listen() -> Result<Self> {
        let listen =
            |kind| signal(kind).map_err(|cause| error::start_failed("it cannot listen for signals", &cause));
        let hangup = SignalKind::hangup();
        Ok(Self {
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
            hangup: if is_ignored(hangup) { None } else { Some(listen(hangup)?) },
        })
    }

    /// Waits for the next signal and returns its name.
    pub(super) async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
            _ = or_never(self.hangup.as_mut().map(Signal::recv)) => "SIGHUP",
        }
    }
}

/// Whether this process ignores a signal, from `/proc/self/status`.
fn is_ignored(kind: SignalKind) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    ignored & (1 << (kind.as_raw_value() - 1)) != 0
}
