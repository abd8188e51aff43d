//! Where a worker's runtime lives: beside the daemon, or placed and reached over a stream. A
//! placement is only the command that brings `subagent-runtime` there.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use subagent_config::environment::passes_on;
use subagent_protocol::ids::WorkerId;
use subagent_protocol::placement::{SubmitAnswer, SubmitFailure, SubmitRequest};
use subagent_protocol::process::ProcessId;
use subagent_protocol::start::RuntimeStart;
use subagent_protocol::state::Desired;
use subagent_protocol::stream::{
    MAX_BANNER_BYTES, STREAM_PROTOCOL, StreamControl, StreamMessage, StreamOpen, after_magic,
};
use subagent_protocol::{Code, Error, Result};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::Command;
use tokio::sync::{mpsc, watch};

use super::link::RuntimeConnection;
use super::process::ExitWatch;
use super::stream::mirror::Mirror;
use super::stream::{EndProof, PlacedStream};
use crate::store::{Cursor, Placement};
use crate::supervisor::shared::DaemonSettings;

/// Time limit of a start. It covers the wait for the locks of an earlier runtime.
const SUBMIT_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum length of the answer to a start, with what a shell printed before it.
const MAX_ANSWER_BYTES: u64 = MAX_BANNER_BYTES as u64 + 64 * 1024;
/// Delay between attempts to reach a live runtime on this machine.
const RECONNECT: Duration = Duration::from_millis(250);
/// The first delay before a broken stream is dialed again. It doubles each time.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LAST_PAUSE: Duration = Duration::from_secs(1);
/// The variable of the daemon that `submit` and `dial` get, beside those that every process gets.
const PASSED_ON: &str = "SUBAGENT_LOG";

pub(crate) enum RuntimePlace {
    /// A child of the daemon, with its locks and journal in the worker's folder.
    Local,
    /// Started and reached by `subagent-runtime submit` and `dial`.
    Placed(Box<PlacedRuntime>),
}

pub(crate) struct PlacedRuntime {
    worker: WorkerId,
    program: PathBuf,
    root: PathBuf,
    mirror: Mirror,
    stream: Option<PlacedStream>,
    /// Whether the end of the newest runtime and its guard was proved.
    guard_gone: bool,
    pause: Duration,
}

/// What a new stream begins with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DialPosition {
    /// How far the journal is stored.
    pub(crate) cursor: Cursor,
    /// The generation of the daemon.
    pub(crate) generation: u64,
    /// The worker's newest runtime.
    pub(crate) incarnation: u64,
}

/// The outcome of a start.
pub(crate) enum Submitted {
    Started(ProcessId),
    /// Nothing runs for this request.
    Failed(SubmitFailure, String),
    /// The command could not be run, so nothing runs.
    NotSent(io::Error),
    /// There was no answer. Only a stream can prove whether a runtime lives.
    Unknown(String),
}

/// The end of a runtime, wherever it is.
pub(crate) enum RuntimeExit {
    Local(ExitWatch),
    Placed {
        process: Option<ProcessId>,
        proof: watch::Receiver<EndProof>,
        outgoing: mpsc::UnboundedSender<StreamMessage>,
    },
}

impl RuntimeExit {
    pub(crate) fn process(&self) -> Option<ProcessId> {
        match self {
            Self::Local(exit) => Some(exit.process()),
            Self::Placed { process, .. } => *process,
        }
    }

    /// Returns when the runtime has ended.
    pub(crate) async fn ended(&self) {
        match self {
            Self::Local(exit) => exit.ended().await,
            Self::Placed { proof, .. } => {
                // A broken stream proves nothing.
                if proof.clone().wait_for(|proof| *proof >= EndProof::Runtime).await.is_err() {
                    std::future::pending::<()>().await;
                }
            }
        }
    }

    /// Kills the runtime. On a broken stream, the caller tries again later.
    pub(crate) fn kill(&self) {
        match self {
            Self::Local(exit) => exit.kill(),
            Self::Placed { outgoing, .. } => drop(outgoing.send(StreamControl::Kill.into())),
        }
    }
}

impl RuntimePlace {
    pub(crate) fn of(
        placement: Option<Placement>,
        setup: &DaemonSettings,
        worker: &WorkerId,
        directory: &Path,
    ) -> Self {
        match placement {
            None => Self::Local,
            Some(Placement::Loopback) => Self::Placed(Box::new(PlacedRuntime {
                worker: worker.clone(),
                program: setup.runtime_program.clone(),
                root: placed_root(&setup.state_dir),
                mirror: Mirror::new(directory),
                stream: None,
                guard_gone: false,
                pause: FIRST_PAUSE,
            })),
        }
    }

    pub(crate) fn is_placed(&self) -> bool {
        matches!(self, Self::Placed(_))
    }

    /// Returns the delay before the next connection.
    pub(crate) fn next_pause(&mut self) -> Duration {
        match self {
            Self::Local => RECONNECT,
            Self::Placed(placed) => {
                let pause = placed.pause;
                placed.pause = (pause * 2).min(LAST_PAUSE);
                pause
            }
        }
    }

    /// The runtime has answered.
    pub(crate) fn answered(&mut self) {
        if let Self::Placed(placed) = self {
            placed.pause = FIRST_PAUSE;
        }
    }

    /// Lets the place remove the segments before this one. They must be stored.
    pub(crate) fn stored(&self, segment: u64) {
        if let Self::Placed(placed) = self
            && let Some(stream) = &placed.stream
        {
            // Without a stream, the next one removes them.
            let _ = stream.sender().send(StreamControl::Stored { segment }.into());
        }
    }
}

impl PlacedRuntime {
    fn command(&self, verb: &str) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args([verb, self.worker.as_str()])
            .current_dir("/")
            .env_clear()
            .envs(std::env::vars_os().filter(|(name, _)| passes_on(name) || name == PASSED_ON))
            .envs(subagent_failpoint::armed_with());
        command
    }

    /// Starts a runtime there.
    pub(crate) async fn submit(&mut self, start: RuntimeStart) -> Submitted {
        self.stream = None;
        self.guard_gone = false;
        let request = SubmitRequest { root: self.root.clone(), start };
        let request = match serde_json::to_vec(&request) {
            Ok(request) => request,
            Err(error) => return Submitted::NotSent(error.into()),
        };
        let mut command = self.command("submit");
        command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
        command.stderr(std::process::Stdio::null()).kill_on_drop(true);
        let child = subagent_failpoint::check("spawn.before").and_then(|()| command.spawn());
        let mut child = match child {
            Ok(child) => child,
            Err(error) => return Submitted::NotSent(error),
        };
        let exchange = async {
            // One that does not read this does not answer either.
            if let Some(mut stdin) = child.stdin.take() {
                let _ = stdin.write_all(&request).await;
            }
            let mut said = Vec::new();
            if let Some(stdout) = child.stdout.take() {
                stdout.take(MAX_ANSWER_BYTES).read_to_end(&mut said).await?;
            }
            child.wait().await?;
            Ok::<_, io::Error>(said)
        };
        match tokio::time::timeout(SUBMIT_TIMEOUT, exchange).await {
            Ok(Ok(said)) => match after_magic(&said).ok().flatten().map(serde_json::from_slice) {
                Some(Ok(SubmitAnswer::Started { process, .. })) => Submitted::Started(process),
                Some(Ok(SubmitAnswer::Failed { reason, message })) => Submitted::Failed(reason, message),
                _ => Submitted::Unknown("its answer is not readable".to_owned()),
            },
            Ok(Err(error)) => Submitted::Unknown(error.to_string()),
            Err(_) => Submitted::Unknown("it did not answer in time".to_owned()),
        }
    }

    /// Opens a new stream in the place of the present one, with a connection to the runtime.
    ///
    /// # Errors
    /// Those of the system: the mirror cannot be written, or `dial` not be started.
    pub(crate) fn connect(
        &mut self,
        at: DialPosition,
        desired: Desired,
        process: Option<ProcessId>,
    ) -> io::Result<(RuntimeConnection, RuntimeExit)> {
        let (stream, frames) = self.dial(at)?;
        let link = RuntimeConnection::over(frames, at.generation, desired);
        let exit = RuntimeExit::Placed { process, proof: stream.proof(), outgoing: stream.sender() };
        self.stream = Some(stream);
        self.guard_gone = false;
        Ok((link, exit))
    }

    /// Whether the end of everything was proved. Opens a stream for the proof if there is none.
    pub(crate) fn is_guard_gone(&mut self, at: DialPosition) -> bool {
        if let Some(stream) = &self.stream {
            self.guard_gone |= *stream.proof().borrow() == EndProof::Guard;
            if self.guard_gone || stream.is_over() {
                self.stream = None;
            }
        }
        if !self.guard_gone && self.stream.is_none() {
            match self.dial(at) {
                // Its frames are not needed: the connection ends at once.
                Ok((stream, _)) => self.stream = Some(stream),
                Err(error) => tracing::warn!(worker = %self.worker, %error, "a placed worker is not reached"),
            }
        }
        self.guard_gone
    }

    fn dial(&mut self, at: DialPosition) -> io::Result<(PlacedStream, tokio::io::DuplexStream)> {
        // Its process ends before the next one writes.
        self.stream = None;
        let mirror = self.mirror.begin(at.cursor)?;
        let open = StreamOpen {
            protocol: STREAM_PROTOCOL,
            root: self.root.clone(),
            generation: at.generation,
            incarnation: at.incarnation,
            segment: at.cursor.segment,
            offset: at.cursor.offset,
        };
        let (stream, frames) = PlacedStream::open(self.command("dial"), open, mirror)?;
        let _ = stream.sender().send(StreamControl::Stored { segment: at.cursor.segment }.into());
        Ok((stream, frames))
    }
}

/// Returns the folder of the workers that are placed on this machine.
pub(crate) fn placed_root(state_dir: &Path) -> PathBuf {
    state_dir.join("placed")
}

/// Returns the command socket of a worker.
///
/// # Errors
/// `SOCKET_PATH_TOO_LONG`.
pub(crate) fn socket_path(
    setup: &DaemonSettings,
    placement: Option<Placement>,
    worker: &str,
) -> Result<PathBuf> {
    match placement {
        None => setup
            .runtime_dir
            .worker_socket(worker)
            .map_err(|error| Error::new(Code::SocketPathTooLong, error.to_string())),
        // Only `submit` and `dial` use it. They say if it is too long.
        Some(Placement::Loopback) => Ok(placed_root(&setup.state_dir).join(worker).join("socket")),
    }
}

/// Returns the file with the standard error of a worker's agents.
pub(crate) fn log_path(setup: &DaemonSettings, placement: Option<Placement>, worker: &str) -> PathBuf {
    let folder = match placement {
        None => setup.state_dir.join("runtimes"),
        Some(Placement::Loopback) => placed_root(&setup.state_dir),
    };
    folder.join(format!("{worker}.log"))
}
