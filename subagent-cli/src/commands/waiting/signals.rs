//! The signals that end a run or a task that is waited for: the first lets it clean up, the next does not.

use nix::sys::signal::{SigHandler, Signal, raise, signal};
use tokio::signal::unix::{Signal as Signals, SignalKind, signal as listen};

use crate::failure::{Failure, Result};

/// Listens: from now on these signals do nothing by themselves.
pub(crate) struct Interruptions([(Signal, Signals); 3]);

impl Interruptions {
    /// Begins to listen.
    ///
    /// # Errors
    /// `INTERNAL_ERROR` if the system does not let us.
    pub(crate) fn new() -> Result<Self> {
        let heard = |kind| {
            listen(kind).map_err(|error| Failure::internal(format!("cannot listen for signals: {error}")))
        };
        Ok(Self([
            (Signal::SIGINT, heard(SignalKind::interrupt())?),
            (Signal::SIGTERM, heard(SignalKind::terminate())?),
            (Signal::SIGHUP, heard(SignalKind::hangup())?),
        ]))
    }

    /// Waits for the next signal.
    pub(crate) async fn next(&mut self) -> Signal {
        let [int, term, hup] = &mut self.0;
        tokio::select! {
            _ = int.1.recv() => int.0,
            _ = term.1.recv() => term.0,
            _ = hup.1.recv() => hup.0,
        }
    }
}

/// From now on the signals end this process by themselves, when nothing is left to clean up.
pub(crate) fn not_heard() {
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        by_default(signal);
    }
}

/// Ends this process as the signal would have, so that its parent sees the signal.
pub(crate) fn end_by(came: Signal) -> ! {
    by_default(came);
    let _ = raise(came);
    // It is blocked: the shell's word for it.
    std::process::exit(128 + came as i32);
}

fn by_default(which: Signal) {
    // SAFETY: the default disposition is no function of ours that could do anything unsafe.
    #[allow(unsafe_code)]
    let _ = unsafe { signal(which, SigHandler::SigDfl) };
}
