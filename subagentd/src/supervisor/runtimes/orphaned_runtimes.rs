//! Finds and ends live runtimes in a state dir that no daemon serves. Ending them requires
//! `daemon.lock`; listing does not. Must not open the database.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use subagent_config::RuntimeDir;
use subagent_protocol::frame::{FromRuntime, Refusal};
use subagent_protocol::ids::WorkerId;
use subagent_protocol::state::Desired;
use subagent_protocol::{Code, Error, Result};
use tokio::time::timeout;

use super::carrier::placed_root;
use super::link::RuntimeConnection;
use super::process::ExitWatch;
use super::{journal, locks};
use crate::store::Cursor;
use crate::supervisor::start::environment;

/// Time for an orderly end of everything below a runtime. Then the runtime is killed.
const END_TIME: Duration = Duration::from_secs(20);
/// Time after the kill for the end of everything. The guard continues in any case.
const KILL_TIME: Duration = Duration::from_secs(10);
/// Time limit for the hello of a runtime.
const HELLO_TIME: Duration = Duration::from_secs(5);

/// The folder of a worker.
#[derive(Debug, Clone)]
pub(crate) struct WorkerFolder {
    /// The worker that the folder is named after.
    pub(crate) worker_id: WorkerId,
    directory: PathBuf,
    /// The folder of its placed runtimes, if there were any on this machine.
    placed: Option<PathBuf>,
}

/// Returns the folders of all workers.
pub(crate) fn all(state_dir: &Path) -> Vec<WorkerFolder> {
    let (runtimes, placed) = (state_dir.join("runtimes"), placed_root(state_dir));
    let mut found: Vec<WorkerId> =
        [&runtimes, &placed].iter().flat_map(|folder| workers_in(folder)).collect();
    found.sort();
    found.dedup();
    let of = |worker_id: WorkerId| WorkerFolder {
        directory: runtimes.join(worker_id.as_str()),
        placed: Some(placed.join(worker_id.as_str())).filter(|folder| folder.is_dir()),
        worker_id,
    };
    found.into_iter().map(of).collect()
}

/// Returns the workers with a folder in this one.
fn workers_in(folder: &Path) -> impl Iterator<Item = WorkerId> {
    fs::read_dir(folder).into_iter().flatten().flatten().filter_map(|entry| {
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        entry.file_name().to_str().filter(|_| is_folder)?.parse().ok()
    })
}

impl WorkerFolder {
    /// Returns whether its runtime or guard is alive. A lock that cannot be read counts as held.
    pub(crate) fn lives(&self) -> bool {
        self.folders().any(locks::are_held)
    }

    fn folders(&self) -> impl Iterator<Item = &Path> {
        [Some(&self.directory), self.placed.as_ref()].into_iter().flatten().map(PathBuf::as_path)
    }

    /// Returns whether its journal continues after this cursor.
    pub(crate) fn goes_on(&self, cursor: Cursor) -> bool {
        self.folders().any(|folder| journal::goes_on(folder, cursor))
    }

    /// Ends its runtime in order. Waits for the guard's proof that no process is left: both locks
    /// are free.
    ///
    /// # Errors
    /// `STOP_INCOMPLETE`.
    pub(crate) async fn end(&self, runtime_dir: &RuntimeDir) -> Result<()> {
        let socket = match self.placed.as_ref().filter(|folder| locks::are_held(folder)) {
            Some(folder) => folder.join("socket"),
            None => runtime_dir
                .worker_socket(self.worker_id.as_str())
                .map_err(|error| Error::new(Code::SocketPathTooLong, error.to_string()))?,
        };
        // The connection stays open until the runtime has ended. A runtime that does not answer is
        // killed.
        let answer = timeout(HELLO_TIME, ask_to_end(&socket)).await.ok().flatten();
        let mut ended = false;
        if answer.is_some() {
            ended = self.ended_within(END_TIME).await?;
        }
        if !ended {
            let process = answer.as_ref().and_then(|(_, process)| process.as_ref()).map(ExitWatch::process);
            if let Some(exit) = process
                .or_else(|| listener(&socket))
                .and_then(|process| ExitWatch::of(process).ok().flatten())
            {
                exit.kill();
            }
            ended = self.ended_within(KILL_TIME).await?;
        }
        drop(answer);
        if !ended {
            let message = format!("worker {} could not be ended; nothing was restored", self.worker_id);
            return Err(Error::new(Code::StopIncomplete, message)
                .with("workerId", self.worker_id.as_str())
                .retryable()
                .recommend(
                    "stop it with `subagent worker stop`, which names what does not end, and try again",
                ));
        }
        let _ = fs::remove_file(&socket);
        environment::remove(&runtime_dir.worker_environment(self.worker_id.as_str()));
        let _ = fs::remove_file(runtime_dir.container_token(self.worker_id.as_str()));
        Ok(())
    }

    async fn ended_within(&self, time: Duration) -> Result<bool> {
        for folder in self.folders().filter(|folder| folder.is_dir()) {
            let runtime = locks::lock_within(folder, locks::RUNTIME, time).await?;
            let guard = locks::lock_within(folder, locks::GUARD, time).await?;
            if runtime.is_none() || guard.is_none() {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Moves the folder and the log of a worker into another folder.
pub(crate) fn set_aside(remains: &WorkerFolder, into: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(into)?;
    let name = remains.worker_id.as_str();
    for (folder, end) in [(Some(&remains.directory), ""), (remains.placed.as_ref(), ".placed")] {
        let Some(folder) = folder else { continue };
        let log = folder.with_file_name(format!("{name}.log"));
        for (from, to) in [(folder, format!("{name}{end}")), (&log, format!("{name}{end}.log"))] {
            match fs::rename(from, into.join(to)) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
    }
    Ok(())
}

/// Asks the runtime behind this socket to end. `None` if it does not answer.
async fn ask_to_end(socket: &Path) -> Option<(RuntimeConnection, Option<ExitWatch>)> {
    let mut generation = 0;
    // A runtime serves the highest generation that it has seen. Its refusal contains that
    // generation.
    for _ in 0..2 {
        let mut link = RuntimeConnection::connect(socket, generation, Desired::Stop).await.ok()?;
        while let Some(frame) = link.next().await {
            match frame {
                FromRuntime::Hello(hello) => {
                    return Some((link, ExitWatch::of(hello.process).ok().flatten()));
                }
                FromRuntime::Refused { refusal: Refusal::OldGeneration, generation: heard } => {
                    generation = heard;
                    break;
                }
                FromRuntime::Refused { .. } => return None,
                _ => {}
            }
        }
    }
    None
}

/// Returns the process that created the socket.
fn listener(socket: &Path) -> Option<subagent_protocol::process::ProcessId> {
    use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
    let stream = std::os::unix::net::UnixStream::connect(socket).ok()?;
    let pid = getsockopt(&stream, PeerCredentials).ok()?.pid();
    let start_time = subagent_config::proc::start_time(pid).ok()?;
    Some(subagent_protocol::process::ProcessId { pid, start_time })
}
