//! `subagent-runtime submit WORKER`: greets, reads one request, starts the runtime of a placed worker
//! and returns. The same request twice gives one runtime. Nothing of it is put on a command line.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use command_fds::{CommandFdExt as _, FdMapping};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{getsockopt, sockopt};
use serde::Deserialize;
use subagent_protocol::MAX_LINE_BYTES;
use subagent_protocol::error::is_storage_full;
use subagent_protocol::placement::{SubmitAnswer, SubmitFailure, SubmitRequest};
use subagent_protocol::process::ProcessId;
use subagent_protocol::start::{GUARD_LOCK_FD, LOCK_FD, RuntimeStart, STORAGE_FULL_EXIT};
use subagent_protocol::stream::{MAGIC, OLDEST_STREAM_PROTOCOL, STREAM_PROTOCOL};

use super::dial::kill_listener;
use super::folder::{Fenced, Pauses, PlacedFolder, WorkerLock};
use super::{segments, there};
use crate::guard::ancestry;

/// Time that a dead runtime's lock may still be held, and that another `submit` may take.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);
/// Time that processes of an earlier agent may delay the start.
const LEFTOVERS_TIMEOUT: Duration = Duration::from_secs(10);
/// Time in which a daemon sends something before the greeting, if it does.
const FIRST_BYTE_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum length of a failed runtime's standard error in the answer, in bytes.
const MAX_SAID: u64 = 2048;

/// Reads the request, starts the runtime, and prints the answer.
///
/// # Errors
///
/// If there is no readable request, or the answer cannot be printed.
pub(crate) fn run(worker: Option<OsString>) -> io::Result<()> {
    super::set_name(c"subagent-submit");
    let worker = super::worker_id(worker)?;
    wait_for_daemon()?;
    // The daemon sends the request only after this. A banner may end without a line end.
    let mut stdout = io::stdout();
    stdout.write_all(&[b"\n", MAGIC].concat())?;
    stdout.flush()?;
    let mut input = Vec::new();
    // One line more than the limit, so that a longer request is an error and not a shorter one.
    io::stdin().lock().take(MAX_LINE_BYTES as u64 + 1).read_to_end(&mut input)?;
    let answer = match understood(&input)? {
        Ok(request) if request.start.worker_id != worker => {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the request is about another worker"));
        }
        Ok(request) => submit(request).unwrap_or_else(|error| {
            let is_full = is_storage_full(&error);
            let reason = if is_full { SubmitFailure::StorageFull } else { SubmitFailure::Other };
            failed(reason, &error.to_string())
        }),
        Err(why) => failed(SubmitFailure::Incompatible, &why),
    };
    let mut line = serde_json::to_vec(&answer)?;
    line.push(b'\n');
    stdout.write_all(&line)
}

/// Waits until the daemon has sent something. Until then, `kubectl` may drop what it should pass on.
fn wait_for_daemon() -> io::Result<()> {
    let limit = PollTimeout::try_from(FIRST_BYTE_TIMEOUT).map_err(io::Error::other)?;
    loop {
        match poll(&mut [PollFd::new(io::stdin().as_fd(), PollFlags::POLLIN)], limit) {
            // An older daemon sends nothing before the greeting.
            Ok(_) => return Ok(()),
            Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Returns the request, or why this version does not understand it.
fn understood(input: &[u8]) -> io::Result<Result<SubmitRequest, String>> {
    #[derive(Deserialize)]
    struct AnyRequest {
        protocol: u32,
    }
    // Serde quotes its input, which may be a secret.
    let refused = |_| io::Error::new(io::ErrorKind::InvalidData, "standard input is not a request");
    let AnyRequest { protocol } = serde_json::from_slice(input).map_err(refused)?;
    let later = super::later_protocol();
    if !(OLDEST_STREAM_PROTOCOL + later..=STREAM_PROTOCOL + later).contains(&protocol) {
        return Ok(Err(format!(
            "subagent-runtime {} there speaks the protocols {OLDEST_STREAM_PROTOCOL} to {STREAM_PROTOCOL} of \
             the stream, the daemon speaks {protocol}",
            env!("CARGO_PKG_VERSION")
        )));
    }
    Ok(serde_json::from_slice(input).map_err(|_| {
        format!("subagent-runtime {} there does not understand the start", env!("CARGO_PKG_VERSION"))
    }))
}

fn submit(request: SubmitRequest) -> io::Result<SubmitAnswer> {
    let SubmitRequest { root, mut start, epoch, supersede, shared, .. } = request;
    let is_elsewhere = root.is_none() || shared || start.container_token.is_some();
    let boot_id = super::boot_id()?;
    if start.container_token.is_some() && start.boot_id != boot_id {
        let why = "the container has another kernel than the daemon, which cannot see its locks then; use an \
                   engine that runs containers on the kernel of this machine";
        return Ok(failed(SubmitFailure::Incompatible, why));
    }
    let root = there::root(root)?;
    let folder = match shared || start.container_token.is_some() {
        // It is mounted. A folder in the place itself would prove nothing outside.
        true => PlacedFolder::at(root.join(start.worker_id.as_str()))?,
        false => PlacedFolder::create(&root, &start.worker_id)?,
    };
    start.directory = folder.path().to_owned();
    start.socket = folder.socket();
    start.log = folder.log();
    start.boot_id = boot_id;
    if let Err(Fenced { generation }) = folder.serve(&epoch, |_| Ok(()))? {
        return Ok(SubmitAnswer::Fenced { generation });
    }
    if is_elsewhere && let Err(problem) = there::resolve(&mut start, folder.path()) {
        return Ok(failed(problem.reason, &problem.message));
    }
    let lock = match lock_or_find(&folder, &start, supersede)? {
        EarlierRuntime::None(lock) => lock,
        EarlierRuntime::Running(process) => {
            return Ok(SubmitAnswer::Started { process, boot_id: start.boot_id });
        }
        EarlierRuntime::Other => {
            return Ok(failed(SubmitFailure::Busy, "an earlier runtime of this worker still runs"));
        }
    };
    if start.incarnation <= folder.record()?.incarnation {
        return Ok(failed(SubmitFailure::Superseded, "this runtime has ended, or a newer one was started"));
    }
    let Some(guard_lock) = folder.lock_within(WorkerLock::Guard, LEFTOVERS_TIMEOUT)? else {
        return Ok(failed(SubmitFailure::Busy, "what an earlier agent of this worker left still runs"));
    };
    let begun = folder.serve(&epoch, |record| {
        segments::remove_all(folder.path())?;
        record.incarnation = start.incarnation;
        Ok(())
    })?;
    if let Err(Fenced { generation }) = begun {
        return Ok(SubmitAnswer::Fenced { generation });
    }
    start_runtime(&start, lock, guard_lock)
}

enum EarlierRuntime {
    /// No runtime lives, and none can begin while this is held.
    None(File),
    /// The runtime of this request.
    Running(ProcessId),
    /// Another runtime, or this one does not listen.
    Other,
}

fn lock_or_find(folder: &PlacedFolder, start: &RuntimeStart, supersede: bool) -> io::Result<EarlierRuntime> {
    let mut pauses = Pauses::new(LOCK_TIMEOUT);
    loop {
        if let Some(lock) = folder.try_lock(WorkerLock::Runtime)? {
            return Ok(EarlierRuntime::None(lock));
        }
        if folder.record()?.incarnation == start.incarnation
            && let Ok(process) = listener(folder)
        {
            return Ok(EarlierRuntime::Running(process));
        }
        if supersede && folder.record()?.incarnation < start.incarnation {
            // The owner has given it up. Its guard ends the agent.
            if let Ok(socket) = UnixStream::connect(folder.socket()) {
                kill_listener(&socket)?;
            }
        }
        if !pauses.pause() {
            return Ok(EarlierRuntime::Other);
        }
    }
}

/// Returns the process that listens on the command socket.
fn listener(folder: &PlacedFolder) -> io::Result<ProcessId> {
    let stream = UnixStream::connect(folder.socket())?;
    let pid = getsockopt(&stream, sockopt::PeerCredentials)?.pid();
    Ok(ProcessId { pid, start_time: ancestry::start_time(pid)? })
}

/// Starts `subagent-runtime run`, which leaves this session, and waits until it listens. Both locks
/// are handed over.
fn start_runtime(start: &RuntimeStart, lock: File, guard_lock: File) -> io::Result<SubmitAnswer> {
    let mut command = Command::new(std::env::current_exe()?);
    command
        .arg("run")
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .fd_mappings(vec![
            FdMapping { parent_fd: OwnedFd::from(lock), child_fd: LOCK_FD },
            FdMapping { parent_fd: OwnedFd::from(guard_lock), child_fd: GUARD_LOCK_FD },
        ])
        .map_err(io::Error::other)?;
    let introduction = serde_json::to_vec(start)?;
    subagent_failpoint::check("submit.before_spawn")?;
    let mut child = command.spawn()?;
    // Closes our copies of the locks.
    drop(command);
    subagent_failpoint::hit("submit.after_spawn");
    let pid = i32::try_from(child.id()).map_err(io::Error::other)?;
    let start_time = ancestry::start_time(pid);
    // A runtime that does not read this has ended, or will not report that it listens.
    if let Some(mut stdin) = child.stdin.take() {
        let _ = stdin.write_all(&introduction);
    }
    let mut line = [0; 16];
    let listens = child.stdout.take().is_some_and(|mut stdout| matches!(stdout.read(&mut line), Ok(1..)));
    if let (true, Ok(start_time)) = (listens, start_time) {
        // It outlives this process, which does not reap it.
        let process = ProcessId { pid, start_time };
        return Ok(SubmitAnswer::Started { process, boot_id: start.boot_id.clone() });
    }
    // It may have ended by itself.
    let _ = child.kill();
    let status = child.wait()?;
    let mut said = Vec::new();
    if let Some(stderr) = child.stderr.take() {
        let _ = stderr.take(MAX_SAID).read_to_end(&mut said);
    }
    let said = String::from_utf8_lossy(&said);
    let reason = match (status.signal(), status.code()) {
        (Some(_), _) => SubmitFailure::Killed,
        (None, Some(code)) if code == i32::from(STORAGE_FULL_EXIT) => SubmitFailure::StorageFull,
        (None, _) => SubmitFailure::Other,
    };
    Ok(failed(reason, &format!("it ended before it listened ({status}): {}", said.trim())))
}

fn failed(reason: SubmitFailure, message: &str) -> SubmitAnswer {
    SubmitAnswer::Failed { reason, message: message.to_owned() }
}
