//! The guard's signals: none may end it, and all arrive through one descriptor.
//!
//! Must not install signal handlers.

use nix::errno::Errno;
use nix::libc;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

/// Signals of a fault in the guard itself. Blocking them would only hide the fault.
const FAULTS: [Signal; 7] = [
    Signal::SIGABRT,
    Signal::SIGBUS,
    Signal::SIGFPE,
    Signal::SIGILL,
    Signal::SIGSEGV,
    Signal::SIGSYS,
    Signal::SIGTRAP,
];

/// Blocks all signals that can be blocked. Returns a non-blocking descriptor to read them from.
///
/// All, because a stray SIGUSR1 or SIGHUP that ends the guard would leave the agent's tree without
/// it. Resets their dispositions to the default: with an ignored SIGCHLD the kernel would reap
/// children itself. The agent inherits the dispositions; [`super::spawn`] sets its mask.
///
/// # Errors
///
/// The system's error; there is nothing to clean up.
pub(crate) fn take_over() -> nix::Result<SignalFd> {
    let mut mask = SigSet::all();
    for fault in FAULTS {
        mask.remove(fault);
    }
    mask.thread_set_mask()?;
    reset_dispositions();
    SignalFd::with_flags(&mask, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)
}

#[allow(unsafe_code)]
fn reset_dispositions() {
    for number in 1..=libc::SIGRTMAX() {
        // The standard library's handlers that report a stack overflow.
        if number == libc::SIGSEGV || number == libc::SIGBUS {
            continue;
        }
        // SAFETY: the default disposition runs no code of ours. Fails for SIGKILL, SIGSTOP and two
        // signals of the C library, which need no change.
        unsafe { libc::signal(number, libc::SIG_DFL) };
    }
}

/// The request of the signals that have arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SignalRequest {
    Nothing,
    End,
}

/// Takes all signals that have arrived. The caller reaps children separately: SIGCHLD
/// is only a hint.
pub(crate) fn drain(signals: &SignalFd) -> SignalRequest {
    let mut asked = SignalRequest::Nothing;
    loop {
        match signals.read_signal() {
            Ok(Some(info)) => {
                if let Ok(libc::SIGTERM | libc::SIGINT | libc::SIGQUIT) = i32::try_from(info.ssi_signo) {
                    asked = SignalRequest::End;
                }
            }
            Err(Errno::EINTR) => {}
            Ok(None) | Err(_) => return asked,
        }
    }
}
