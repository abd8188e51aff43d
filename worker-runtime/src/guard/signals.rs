//! The guard's signals: none may end it, all arrive through one descriptor.
//!
//! Must not install handlers.

use nix::errno::Errno;
use nix::libc;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

/// Those that mean a fault in the guard itself: to block them would only hide it.
const FAULTS: [Signal; 7] = [
    Signal::SIGABRT,
    Signal::SIGBUS,
    Signal::SIGFPE,
    Signal::SIGILL,
    Signal::SIGSEGV,
    Signal::SIGSYS,
    Signal::SIGTRAP,
];

/// Blocks all signals that can be and gives a descriptor to read them from, without waiting.
///
/// All, because a stray SIGUSR1 or SIGHUP that ends the guard would leave the agent's tree to somebody else. Their
/// dispositions are the default from here on (an inherited, ignored SIGCHLD would make the kernel reap behind our
/// back), which the agent inherits; its mask it gets in [`super::spawn`].
///
/// # Errors
/// The system's, with nothing to clean up.
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
        // The standard library's handlers that explain a stack overflow.
        if number == libc::SIGSEGV || number == libc::SIGBUS {
            continue;
        }
        // SAFETY: the default disposition runs no code of ours. Fails for SIGKILL and SIGSTOP and the two of the C
        // library, which are as they should be.
        unsafe { libc::signal(number, libc::SIG_DFL) };
    }
}

/// What the signals that have arrived ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    Nothing,
    End,
}

/// Takes all signals that have arrived. Children are asked for separately: SIGCHLD says only that it is worth it.
pub(crate) fn drain(signals: &SignalFd) -> Asked {
    let mut asked = Asked::Nothing;
    loop {
        match signals.read_signal() {
            Ok(Some(info)) => {
                if let Ok(libc::SIGTERM | libc::SIGINT | libc::SIGQUIT) = i32::try_from(info.ssi_signo) {
                    asked = Asked::End;
                }
            }
            Err(Errno::EINTR) => {}
            Ok(None) | Err(_) => return asked,
        }
    }
}
