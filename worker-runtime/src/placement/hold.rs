//! `subagent-runtime hold [--create] FOLDER [NUMBER]`: the first process of a container, job or pod. It
//! reaps, starts `submit` for those that ask, and ends when no runtime and no guard of the worker lives.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::socket::{getsockopt, sockopt};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid, waitpid};
use nix::unistd::{Pid, geteuid};

use subagent_protocol::placement::kubernetes::CREATE;
use subagent_protocol::placement::slurm::JOB_FILE;

use super::dial::kill_listener;
use super::folder::{PlacedFolder, WorkerLock};
use super::there;

/// A look at children that leaves them as they are.
const CHILDREN: WaitPidFlag = WaitPidFlag::WEXITED.union(WaitPidFlag::WNOHANG).union(WaitPidFlag::WNOWAIT);
/// Time in which a runtime must be started.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// The first and the longest pause between two looks at a live runtime. A process that ends resets it.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LAST_PAUSE: Duration = Duration::from_secs(60);
/// Time that a place with the only copy of the journal stays after the end of its runtime. The daemon
/// ends it once it has the journal.
const LINGER_TIMEOUT: Duration = Duration::from_secs(3600);
/// Time limit for the end of the guard after the engine has asked for the end.
const GUARD_TIMEOUT: Duration = Duration::from_secs(20);

/// Holds the place until its runtime has ended. With a number, it serves `subagent-runtime relay`: an
/// engine may end all processes of a command with it, and not what this process starts. With
/// `--create`, the folder is created: the place shares none with the daemon. Then it also stays for
/// the rest of the journal.
///
/// # Errors
///
/// Of the system, or the folder cannot be used. Then the place ends.
pub(crate) fn run(arguments: impl Iterator<Item = OsString>) -> io::Result<()> {
    super::set_name(c"subagent-hold");
    let mut arguments = arguments.peekable();
    let creates = arguments.next_if(|word| word == CREATE).is_some();
    let missing = || io::Error::new(io::ErrorKind::InvalidInput, "the argument must be a worker's folder");
    let path = there::path(&arguments.next().ok_or_else(missing)?)?;
    let folder = match (creates, path.parent()) {
        (true, Some(root)) => {
            let worker = super::worker_id(path.file_name().map(ToOwned::to_owned))?;
            PlacedFolder::create(root, &worker)?
        }
        _ => PlacedFolder::at(path)?,
    };
    let number = arguments.next();
    // The runtimes of several jobs share a folder.
    let own = number.as_ref().and_then(|number| number.to_str()?.parse().ok()).filter(|_| !creates);
    if own.is_some_and(|own| has_ended(&folder, own)) {
        return Ok(());
    }
    let served = number.map(|number| HoldSocket::listen(&folder, &number, !creates)).transpose()?;
    // The runtime outlives `submit`, and becomes a child of this process.
    nix::sys::prctl::set_child_subreaper(true)?;
    let mut signals = SigSet::empty();
    for signal in [Signal::SIGCHLD, Signal::SIGTERM, Signal::SIGINT] {
        signals.add(signal);
    }
    // The first process of a container gets only signals that it handles or blocks.
    signals.thread_block()?;
    let pending = SignalFd::with_flags(&signals, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
    let (mut pause, mut look_at) = (FIRST_PAUSE, Instant::now() + START_TIMEOUT);
    let mut ended = None;
    loop {
        let left = look_at.saturating_duration_since(Instant::now()) + Duration::from_millis(1);
        let timeout = PollTimeout::try_from(left).map_err(io::Error::other)?;
        let mut waits = vec![PollFd::new(pending.as_fd(), PollFlags::POLLIN)];
        waits.extend(served.iter().map(|socket| PollFd::new(socket.listener.as_fd(), PollFlags::POLLIN)));
        match poll(&mut waits, timeout) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
        while let Some(signal) = pending.read_signal()? {
            if signal.ssi_signo != Signal::SIGCHLD as u32 {
                return end(&folder);
            }
        }
        if let Some(socket) = &served {
            // A failure of one connection: its process tries again.
            let _ = socket.serve(&folder);
        }
        if reap()? {
            pause = FIRST_PAUSE;
        } else if Instant::now() < look_at {
            continue;
        }
        if !lives(&folder) || own.is_some_and(|own| has_ended(&folder, own)) {
            let since = *ended.get_or_insert_with(Instant::now);
            if !creates || !was_started(&folder) || since.elapsed() >= LINGER_TIMEOUT {
                return Ok(());
            }
        }
        // Another process may look at a lock at this moment, and this one not be the parent of all
        // others in the container. So the end of the last one is not enough to wait for.
        look_at = Instant::now() + pause;
        pause = (pause * 2).min(LAST_PAUSE);
    }
}

/// Ends the runtime, and waits until its guard has ended the agent: an engine may not find processes
/// that have left their session.
fn end(folder: &PlacedFolder) -> io::Result<()> {
    if let Ok(socket) = UnixStream::connect(folder.socket()) {
        kill_listener(&socket)?;
    }
    folder.lock_within(WorkerLock::Guard, GUARD_TIMEOUT).map(drop)
}

/// The socket of one runtime's place. Removed with this.
struct HoldSocket {
    listener: UnixListener,
    path: PathBuf,
}

impl HoldSocket {
    /// `names`: whether the job names itself, for a daemon that shares the folder.
    fn listen(folder: &PlacedFolder, number: &OsString, names: bool) -> io::Result<Self> {
        let path = super::relay::socket(folder, number);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            // Of a process with this number that was killed.
            _ => {}
        }
        if names {
            name_job(folder, number)?;
        }
        let listener = UnixListener::bind(&path)?;
        listener.set_nonblocking(true)?;
        Ok(Self { listener, path })
    }

    /// Starts `submit` for each process of this user that has connected.
    fn serve(&self, folder: &PlacedFolder) -> io::Result<()> {
        loop {
            let stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                // Also a failure of one connection: its process tries again.
                Err(_) => return Ok(()),
            };
            if getsockopt(&stream, sockopt::PeerCredentials)?.uid() != geteuid().as_raw() {
                continue;
            }
            stream.set_nonblocking(false)?;
            let (input, output) = (OwnedFd::from(stream.try_clone()?), OwnedFd::from(stream));
            // It is reaped with all others.
            Command::new(std::env::current_exe()?)
                .arg("submit")
                .args(folder.path().file_name())
                .stdin(Stdio::from(input))
                .stdout(Stdio::from(output))
                .spawn()?;
        }
    }
}

/// Writes the file with the job of Slurm that holds the place.
fn name_job(folder: &PlacedFolder, number: &OsString) -> io::Result<()> {
    let of_job = |name: &str| {
        let missing = |error| io::Error::other(format!("{name}: {error}"));
        std::env::var(name).map_err(missing)
    };
    let (job, cluster) = (of_job("SLURM_JOB_ID")?, of_job("SLURM_CLUSTER_NAME")?);
    let named = folder.path().join(format!("{JOB_FILE}{}", number.display()));
    // Whole or not at all: the daemon takes a missing one for a place without processes.
    let new = named.with_extension("new");
    std::fs::write(&new, format!("{job} {cluster}\n"))?;
    std::fs::File::open(&new)?.sync_all()?;
    std::fs::rename(&new, &named)
}

impl Drop for HoldSocket {
    fn drop(&mut self) {
        // It goes with the folder otherwise.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Returns whether a process was reaped.
fn reap() -> io::Result<bool> {
    let mut reaped = false;
    loop {
        match waitpid(Pid::from_raw(-1), Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::StillAlive) | Err(Errno::ECHILD) => return Ok(reaped),
            Ok(_) => reaped = true,
            Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Whether a runtime was started, as far as is known.
fn was_started(folder: &PlacedFolder) -> bool {
    folder.record().map_or(true, |record| record.incarnation > 0)
}

/// Whether the runtime of this number was started before and has ended, or a newer one was started. The
/// processes of this job are its children.
fn has_ended(folder: &PlacedFolder, own: u64) -> bool {
    let has_children = !matches!(waitid(Id::All, CHILDREN), Err(Errno::ECHILD));
    let newest = folder.record().map_or(0, |record| record.incarnation);
    !has_children && (newest > own || (newest == own && !lives(folder)))
}

/// Whether a runtime or a guard lives. A lock that cannot be looked at now, as on a file system whose
/// server is away, may be held.
fn lives(folder: &PlacedFolder) -> bool {
    [WorkerLock::Runtime, WorkerLock::Guard].into_iter().any(|lock| match folder.try_lock(lock) {
        Ok(free) => free.is_none(),
        Err(error) => error.kind() != io::ErrorKind::NotFound,
    })
}
