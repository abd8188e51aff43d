//! The start of a runtime: checks, takes over and cleans what it inherits.
//!
//! Starts nothing. Errors occur before there is a journal and therefore go to stderr.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigHandler, SigSet, Signal, signal};
use nix::sys::stat::{Mode, umask};
use subagent_protocol::start::{GUARD_LOCK_FD, LOCK_FD, RuntimeStart};
use subagent_protocol::{MAX_LINE_BYTES, OLDEST_PROTOCOL, PROTOCOL};

/// How long the daemon may take to hand over the start parameters.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// Everything a runtime starts with.
pub(crate) struct Startup {
    pub(crate) start: RuntimeStart,
    /// The locked file `lock`; held while open.
    pub(crate) lock: File,
    /// The locked file `guard.lock`, for the guard.
    pub(crate) guard_lock: OwnedFd,
}

/// Takes over what the daemon handed in, and detaches from the daemon.
///
/// # Errors
///
/// What was missing or wrong; nothing was started.
pub(crate) fn take() -> io::Result<Startup> {
    let lock = own(LOCK_FD, "lock")?;
    let guard_lock = own(GUARD_LOCK_FD, "guard.lock")?;
    become_own_process()?;
    let start = parse(&read_input()?)?;
    nix::unistd::dup2_stdin(File::open("/dev/null")?)?;
    let lock = File::from(lock);
    if !is_same_file(&lock, &lock_path(&start.directory)) {
        let message = format!("descriptor {LOCK_FD} is not {}", lock_path(&start.directory).display());
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    Ok(Startup { start, lock, guard_lock })
}

/// Leaves the starter's session, folder, signal mask and dispositions, and adopts
/// orphans of its descendants.
///
/// # Errors
///
/// The error of a system call.
pub(crate) fn become_own_process() -> io::Result<()> {
    reset_signals()?;
    // Fails only for a group leader, which has left its starter's terminal already.
    let _ = nix::unistd::setsid();
    umask(Mode::from_bits_truncate(0o077));
    nix::unistd::chdir("/")?;
    #[cfg(target_os = "linux")]
    nix::sys::prctl::set_child_subreaper(true)?;
    Ok(())
}

/// Tells the starter that the command socket listens, and closes the pipe to it.
///
/// # Errors
///
/// `/dev/null` cannot be opened. A closed pipe is not an error: a runtime outlives its daemon.
pub(crate) fn say_listening() -> io::Result<()> {
    subagent_failpoint::hit("listening.before_notify");
    let _ = io::stdout().write_all(b"listening\n").and_then(|()| io::stdout().flush());
    nix::unistd::dup2_stdout(File::options().write(true).open("/dev/null")?)?;
    subagent_failpoint::hit("listening.after_notify");
    Ok(())
}

/// The file whose lock proves that the runtime lives.
pub(crate) fn lock_path(directory: &Path) -> std::path::PathBuf {
    directory.join("lock")
}

/// Whether the path still names the open file.
pub(crate) fn is_same_file(file: &File, path: &Path) -> bool {
    match (file.metadata(), fs::symlink_metadata(path)) {
        (Ok(open), Ok(named)) => (open.dev(), open.ino()) == (named.dev(), named.ino()),
        _ => false,
    }
}

fn parse(input: &[u8]) -> io::Result<RuntimeStart> {
    let invalid = |message: String| io::Error::new(io::ErrorKind::InvalidData, message);
    // Serde quotes its input, which may be a secret. The error names only the position.
    let start: RuntimeStart = serde_json::from_slice(input).map_err(|error| {
        invalid(format!(
            "standard input is not a start message (line {}, column {})",
            error.line(),
            error.column()
        ))
    })?;
    if start.protocol < OLDEST_PROTOCOL {
        return Err(invalid(format!(
            "the daemon speaks protocol {}, this runtime {OLDEST_PROTOCOL} to {PROTOCOL}: use binaries of the same version",
            start.protocol
        )));
    }
    Ok(start)
}

/// Reads standard input to its end, with limits on size and time.
fn read_input() -> io::Result<Vec<u8>> {
    let deadline = Instant::now() + START_TIMEOUT;
    let stdin = io::stdin();
    let mut input = Vec::new();
    let mut chunk = [0; 4096];
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::ZERO);
        let mut fds = [PollFd::new(stdin.as_fd(), PollFlags::POLLIN)];
        match poll(&mut fds, timeout) {
            Err(nix::errno::Errno::EINTR) => continue,
            Err(error) => return Err(error.into()),
            Ok(0) => {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "no start message on standard input"));
            }
            Ok(_) => {}
        }
        match nix::unistd::read(&stdin, &mut chunk)? {
            0 => return Ok(input),
            length => input.extend_from_slice(&chunk[..length]),
        }
        if input.len() > MAX_LINE_BYTES {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the start message is too long"));
        }
    }
}

/// Resets signals that the daemon ignored or blocked, for this process and the agent.
#[allow(unsafe_code)]
fn reset_signals() -> io::Result<()> {
    for which in Signal::iterator() {
        if !matches!(which, Signal::SIGKILL | Signal::SIGSTOP) {
            // SAFETY: no handler of ours runs; this process has one thread and has installed none.
            unsafe { signal(which, SigHandler::SigDfl) }?;
        }
    }
    // A broken pipe is an error value here. Programs that we start get the default back.
    // SAFETY: as above.
    unsafe { signal(Signal::SIGPIPE, SigHandler::SigIgn) }?;
    SigSet::empty().thread_set_mask()?;
    Ok(())
}

#[allow(unsafe_code)]
fn own(fd: RawFd, name: &str) -> io::Result<OwnedFd> {
    // SAFETY: used for one fcntl(), which returns EBADF if it is not open; not kept.
    let flags = fcntl(unsafe { BorrowedFd::borrow_raw(fd) }, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC));
    flags.map_err(|error| {
        let message =
            format!("descriptor {fd} ({name}) is not open: a runtime is started by subagentd, not by hand");
        io::Error::new(io::Error::from(error).kind(), message)
    })?;
    // SAFETY: the descriptor is open, handed over by the daemon, and taken once, before anything
    // else is opened.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
