//! Handles Ctrl-C during the demo: stops its commands, worker and daemon, deletes its folder, and ends by
//! the signal.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::{Arc, Mutex, PoisonError};

use nix::sys::signal::{SigHandler, Signal, kill, raise, signal};
use nix::unistd::Pid;
use tokio::signal::unix::{Signal as Signals, SignalKind, signal as listen};

use super::shell::DemoShell;
use crate::failure::{Failure, Result};
use crate::output::write_stderr;

/// The running commands of the demo. A held lock prevents further ones.
#[derive(Debug, Clone, Default)]
pub(super) struct DemoProcesses(Arc<Mutex<Vec<Pid>>>);

impl DemoProcesses {
    /// Starts a command. During the cleanup it never returns.
    pub(super) fn spawn(&self, command: &mut Command) -> std::io::Result<Child> {
        let mut running = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let child = command.spawn()?;
        running.extend(child.id().try_into().map(Pid::from_raw));
        Ok(child)
    }

    pub(super) fn ended(&self, pid: u32) {
        let mut running = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        running.retain(|child| u32::try_from(child.as_raw()) != Ok(pid));
    }
}

/// Receives the signals that end a program.
pub(super) struct Listener {
    queue: tokio::runtime::Runtime,
    signals: [(Signal, Signals); 3],
}

impl Listener {
    /// Replaces the default actions of the signals.
    ///
    /// # Errors
    /// `INTERNAL_ERROR` if the system refuses the handlers.
    pub(super) fn new() -> Result<Self> {
        let failed = |error| Failure::internal(format!("cannot listen for signals: {error}"));
        let queue = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let inside = queue.enter();
        let heard = |kind| listen(kind).map_err(failed);
        let signals = [
            (Signal::SIGINT, heard(SignalKind::interrupt())?),
            (Signal::SIGTERM, heard(SignalKind::terminate())?),
            (Signal::SIGHUP, heard(SignalKind::hangup())?),
        ];
        drop(inside);
        Ok(Self { queue, signals })
    }

    /// Waits on a separate thread for the first signal and then cleans up.
    pub(super) fn clean_up(self, shell: &DemoShell, folder: PathBuf) {
        let (shell, Self { queue, signals: [mut int, mut term, mut hup] }) = (shell.clone(), self);
        std::thread::spawn(move || {
            let came = queue.block_on(async {
                tokio::select! {
                    _ = int.1.recv() => int.0,
                    _ = term.1.recv() => term.0,
                    _ = hup.1.recv() => hup.0,
                }
            });
            // Held until the process ends.
            let children = shell.children();
            let running = children.0.lock().unwrap_or_else(PoisonError::into_inner);
            for child in running.iter() {
                // The command may have ended already.
                let _ = kill(*child, Signal::SIGKILL);
            }
            write_stderr("\nInterrupted: the demo's worker and daemon are being stopped.\n");
            let left = match shell.stop_all().and_then(|()| fs::remove_dir_all(&folder)) {
                Ok(()) => "Nothing is left.\n".to_owned(),
                Err(error) => format!("{} is left: {error}\n", folder.display()),
            };
            write_stderr(&left);
            // SAFETY: the default disposition runs no function of this program.
            #[allow(unsafe_code)]
            let restored = unsafe { signal(came, SigHandler::SigDfl) };
            let _ = restored.and_then(|_| raise(came));
            // The signal is blocked; this is the shell's exit code for it.
            std::process::exit(128 + came as i32);
        });
    }
}
