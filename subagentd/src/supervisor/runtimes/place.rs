//! Where a worker's runtime lives: beside the daemon, or placed and reached over a stream. A
//! placement is only the command that brings `subagent-runtime` there.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use subagent_config::runtime_dir::SOCKET_PATH_LIMIT;
use subagent_protocol::data::workers::PendingPlace;
use subagent_protocol::ids::WorkerId;
use subagent_protocol::placement::{PLACED_LOG, Placement, SubmitFailure, SubmitRequest};
use subagent_protocol::process::ProcessId;
use subagent_protocol::start::RuntimeStart;
use subagent_protocol::state::Desired;
use subagent_protocol::stream::{DaemonEpoch, STREAM_PROTOCOL, StreamControl, StreamMessage, StreamOpen};
use subagent_protocol::{Code, Error, Result};
use tokio::sync::{mpsc, watch};

use super::asked;
use super::carrier::{Carrier, root_of};
use super::ended::{self, PlaceEnding, PlacesEnd, WorkerPlaces};
use super::link::RuntimeConnection;
use super::process::ExitWatch;
use super::queued::{self, PlaceTurn};
use super::stream::channels::TaskServing;
use super::stream::mirror::Mirror;
use super::stream::redial::{self, RedialPause};
use super::stream::{DialCommand, Dialed, EndProof, PlacedStream, StreamState};
use super::submission;
use crate::store::{Cursor, WorkerRow};
use crate::supervisor::shared::DaemonSettings;

/// Delay between attempts to reach a live runtime on this machine.
const RECONNECT: Duration = Duration::from_millis(250);
pub(crate) enum RuntimePlace {
    /// A child of the daemon, with its locks and journal in the worker's folder.
    Local,
    /// Started and reached by `subagent-runtime submit` and `dial`.
    Placed(Box<PlacedRuntime>),
}

pub(crate) struct PlacedRuntime {
    worker: WorkerId,
    carrier: Carrier,
    mirror: Mirror,
    /// Where the connections of the agent's task server go, from another machine.
    serving: Option<TaskServing>,
    stream: Option<PlacedStream>,
    /// The `dial` of the next stream, which was started beside the runtime.
    dialed: Option<Dialed>,
    /// The engine's id of the place of the next runtime, which was ready when it was last looked at.
    handle: Option<String>,
    /// Whether the end of the newest runtime and its guard was proved.
    guard_gone: bool,
    /// Whether the newest runtime ended with its place, which had the rest of its journal.
    journal_lost: bool,
    /// Whether the owner accepted a second runtime: the next start ends the first one.
    supersedes: bool,
    /// Whether a client waits for the next connection.
    hurries: bool,
    /// That of the last stream, in milliseconds.
    clock_offset: i64,
    redial: RedialPause,
}

/// What a new stream begins with.
#[derive(Debug, Clone)]
pub(crate) struct DialPosition {
    /// The start of the daemon that asks.
    pub(crate) epoch: DaemonEpoch,
    /// How far the journal is stored.
    pub(crate) cursor: Cursor,
    /// The worker's newest runtime.
    pub(crate) incarnation: u64,
    /// Whether the place has reported this runtime as started.
    pub(crate) is_known: bool,
}

/// The outcome of a start.
pub(crate) enum Submitted {
    Started {
        /// The process, as the place knows it.
        process: ProcessId,
        /// The boot of the place's machine.
        boot_id: String,
    },
    /// Nothing runs for this request.
    Failed(SubmitFailure, String),
    /// The place serves another daemon.
    Fenced(Error),
    /// The command could not be run, so nothing runs.
    NotSent(io::Error),
    /// The request was not sent, because the host did not greet. Nothing runs.
    NotReached(Error),
    /// There was no answer. Only a stream can prove whether a runtime lives.
    Unknown(Error),
}

/// The end of a runtime, wherever it is.
pub(crate) enum RuntimeExit {
    Local(ExitWatch),
    Placed {
        process: Option<ProcessId>,
        stream: watch::Receiver<StreamState>,
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
            Self::Placed { stream, .. } => seen(stream, |state| state.proof >= EndProof::Runtime).await,
        }
    }

    /// Returns when the place of a placed runtime has answered.
    pub(crate) async fn greeted(&self) {
        match self {
            Self::Local(_) => std::future::pending().await,
            Self::Placed { stream, .. } => seen(stream, |state| state.greeted).await,
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

/// Returns when the stream has this state. Never if it ends before: a broken stream proves nothing.
async fn seen(stream: &watch::Receiver<StreamState>, is_so: impl FnMut(&StreamState) -> bool) {
    if stream.clone().wait_for(is_so).await.is_err() {
        std::future::pending::<()>().await;
    }
}

impl RuntimePlace {
    /// Returns the place of a worker. `serving` is that of a worker whose agent gives tasks.
    pub(crate) fn of(
        row: &WorkerRow,
        setup: &DaemonSettings,
        directory: &Path,
        serving: Option<TaskServing>,
    ) -> Self {
        match &row.placement {
            None => Self::Local,
            Some(placement) => Self::Placed(Box::new(PlacedRuntime {
                worker: row.worker_id.clone(),
                carrier: Carrier::of(placement, setup, &row.worker_id),
                mirror: Mirror::new(directory),
                // On this machine, the task server uses the daemon's own socket.
                serving: serving.filter(|_| placement.elsewhere().is_some()),
                stream: None,
                dialed: None,
                handle: None,
                // Nothing was started yet.
                guard_gone: row.incarnation == 0,
                journal_lost: false,
                supersedes: false,
                hurries: false,
                clock_offset: 0,
                redial: RedialPause::new(),
            })),
        }
    }

    /// Returns the other machine or container where the runtimes are started.
    pub(crate) fn elsewhere(&self) -> Option<&Placement> {
        match self {
            Self::Local => None,
            Self::Placed(placed) => placed.carrier.elsewhere(),
        }
    }

    pub(crate) fn is_container(&self) -> bool {
        matches!(self, Self::Placed(placed) if placed.carrier.is_container())
    }

    /// Returns the line with which connections to a runtime in a container begin; `None` elsewhere.
    ///
    /// # Errors
    /// `STORAGE_ERROR`, `STORAGE_FULL`.
    pub(crate) fn container_token(&self) -> Result<Option<String>> {
        match self {
            Self::Local => Ok(None),
            Self::Placed(placed) => placed.carrier.token(),
        }
    }

    /// Returns how much earlier the clock there is, in milliseconds, as far as the place has said.
    pub(crate) fn clock_offset(&self) -> i64 {
        let Self::Placed(placed) = self else { return 0 };
        placed.present_offset().unwrap_or(placed.clock_offset)
    }

    /// Whether pids of the runtime mean nothing outside of its place.
    pub(crate) fn has_own_pids(&self) -> bool {
        matches!(self, Self::Placed(placed) if placed.carrier.has_own_pids())
    }

    /// Whether the journal can end with its place, so that what has arrived must not be dropped.
    pub(crate) fn may_vanish(&self) -> bool {
        let Self::Placed(placed) = self else { return false };
        placed.carrier.queue().is_some_and(|queue| !queue.shares_folder())
    }

    /// Whether the place of the newest runtime has ended with the rest of its journal.
    pub(crate) fn is_journal_lost(&mut self) -> bool {
        match self {
            Self::Local => false,
            Self::Placed(placed) => {
                placed.see_journal();
                placed.journal_lost
            }
        }
    }

    /// Ends what is left of the containers of the worker, whose runtimes must have ended. The places of an
    /// engine with a queue are ended by [`Self::ending`].
    pub(crate) async fn end_containers(&self, incarnation: u64) {
        if let Self::Placed(placed) = self {
            submission::end_all(&placed.carrier, &placed.worker, incarnation).await;
        }
    }

    /// Returns the kind of the engine that has a queue.
    pub(crate) fn queue_kind(&self) -> Option<&'static str> {
        let Self::Placed(placed) = self else { return None };
        placed.carrier.queue().map(|_| placed.carrier.kind())
    }

    /// Returns what ends these places in an engine's queue, and brings the proof; `None` if nothing is to
    /// be ended. `clean`: the newest runtime has proved its end.
    pub(crate) fn ending(
        &self,
        which: WorkerPlaces,
        clean: bool,
        at: DialPosition,
    ) -> Option<impl Future<Output = Result<PlacesEnd>> + Send + 'static> {
        let Self::Placed(placed) = self else { return None };
        let engine = placed.carrier.queue()?;
        let newest_ends = engine.shares_folder() && clean;
        let ending = PlaceEnding { tries_given_up: true, newest_ends, ..placed.ending_of(which, at) };
        let (carrier, worker) = (placed.carrier.clone(), placed.worker.clone());
        Some(async move { ended::end_all(&carrier, &engine, &worker, &ending).await })
    }

    /// Returns how the engine has ended the place of a runtime; `None` if that is not known.
    pub(crate) async fn end_of(&self, incarnation: u64) -> Option<String> {
        let Self::Placed(placed) = self else { return None };
        let engine = placed.carrier.queue()?;
        queued::end_of(&placed.carrier, &engine, &placed.worker, incarnation).await
    }

    /// Returns the question to the engine's queue for the place of a runtime that will be started;
    /// `None` without a queue.
    pub(crate) fn question(
        &self,
        at: DialPosition,
        waited: Option<PendingPlace>,
    ) -> Option<impl Future<Output = Result<PlaceTurn>> + Send + 'static> {
        let Self::Placed(placed) = self else { return None };
        let engine = placed.carrier.queue()?;
        let (carrier, worker) = (placed.carrier.clone(), placed.worker.clone());
        let next = at.incarnation + 1;
        // Nothing else keeps a second runtime from starting. Or the owner has accepted that.
        let must_end = !engine.shares_folder() && !placed.supersedes;
        let earlier = must_end.then(|| placed.ending_of(WorkerPlaces::Earlier, at));
        Some(async move {
            queued::ask(&carrier, &engine, (&worker, next), waited.as_ref(), earlier.as_ref()).await
        })
    }

    /// The place of the next runtime is ready. Its handle is the engine's.
    pub(crate) fn is_ready(&mut self, handle: String) {
        if let Self::Placed(placed) = self {
            placed.handle = Some(handle);
        }
    }

    pub(crate) fn is_placed(&self) -> bool {
        matches!(self, Self::Placed(_))
    }

    /// A client waits for the place: its connection does not wait for those of other workers.
    pub(crate) fn hurry(&mut self) {
        let Self::Placed(placed) = self else { return };
        match placed.stream.as_ref().filter(|stream| stream.is_open()) {
            Some(stream) => stream.hurry(),
            None => placed.hurries = true,
        }
    }

    /// Whether the place has answered on a stream that is still open.
    pub(crate) fn is_reached(&self) -> bool {
        let Self::Placed(placed) = self else { return true };
        placed.is_greeted() && placed.stream.as_ref().is_some_and(PlacedStream::is_open)
    }

    /// Whether it is known that the newest runtime and its guard have ended.
    pub(crate) fn is_end_proved(&self) -> bool {
        matches!(self, Self::Placed(placed) if placed.guard_gone)
    }

    /// Whether the connection waits for those of other workers.
    pub(crate) fn waits_for_turn(&self) -> bool {
        let Self::Placed(placed) = self else { return false };
        let stream = placed.stream.as_ref().filter(|stream| stream.is_open());
        stream.is_some_and(|stream| stream.state().borrow().began.is_none())
    }

    /// Returns the delay before the next connection.
    pub(crate) fn next_pause(&mut self) -> Duration {
        match self {
            Self::Local => RECONNECT,
            Self::Placed(placed) => {
                let away = placed.carrier.elsewhere().is_some() && !placed.is_greeted();
                placed.redial.next(away, &placed.worker)
            }
        }
    }

    /// Returns the longest delay before another look for the proof that nothing is left.
    pub(crate) fn pause_of_proof(&self) -> Duration {
        match self {
            Self::Placed(placed) if !placed.is_greeted() => redial::LAST_UNREACHED,
            Self::Local | Self::Placed(_) => redial::LAST,
        }
    }

    /// The runtime has answered.
    pub(crate) fn answered(&mut self) {
        if let Self::Placed(placed) = self {
            placed.redial.answered();
        }
    }

    /// The place has answered.
    pub(crate) fn greeted(&mut self) {
        if let Self::Placed(placed) = self {
            placed.redial.greeted();
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
    /// Whether the place has answered on the present stream.
    fn is_greeted(&self) -> bool {
        self.stream.as_ref().is_some_and(|stream| stream.state().borrow().greeted)
    }

    fn present_offset(&self) -> Option<i64> {
        let state = self.stream.as_ref()?.state();
        let state = state.borrow();
        state.greeted.then_some(state.clock_offset)
    }

    fn drop_stream(&mut self) {
        self.clock_offset = self.present_offset().unwrap_or(self.clock_offset);
        self.stream = None;
    }

    fn drop_connections(&mut self) {
        self.drop_stream();
        self.dialed = None;
    }

    /// Starts a runtime there.
    pub(crate) async fn submit(&mut self, epoch: DaemonEpoch, start: RuntimeStart) -> Submitted {
        let own = usize::from(self.is_greeted() && self.stream.as_ref().is_some_and(PlacedStream::is_open));
        self.drop_connections();
        let nothing_left = std::mem::replace(&mut self.guard_gone, false);
        self.journal_lost = false;
        let incarnation = start.incarnation;
        let (root, supersede) = (self.carrier.root(), self.supersedes);
        let shared = self.carrier.queue().is_some_and(|queue| queue.is_held());
        let request = SubmitRequest { protocol: STREAM_PROTOCOL, epoch, root, supersede, shared, start };
        let handle = self.handle.take();
        // A connection needs round trips before its first message.
        let turn = self.carrier.turn_beside_start(own);
        let dialed = turn.and_then(|turn| Dialed::early(self.carrier.dial(&self.worker), turn).ok());
        let submitted = match serde_json::to_vec(&request) {
            Ok(request) => {
                let runtime = (&self.worker, incarnation);
                let carrier = self.carrier.beside(dialed.is_some());
                submission::submit(&carrier, runtime, handle.as_deref(), &request).await
            }
            Err(error) => Submitted::NotSent(error.into()),
        };
        if matches!(submitted, Submitted::Started { .. }) {
            self.dialed = dialed;
            self.hurries = true;
            self.supersedes = false;
        }
        if matches!(submitted, Submitted::NotSent(_) | Submitted::NotReached(_)) {
            // This start has changed nothing.
            self.guard_gone = nothing_left;
        }
        submitted
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
        let generation = at.epoch.generation;
        let (stream, frames) = self.dial(at)?;
        let link = RuntimeConnection::over(frames, generation, desired);
        let exit = RuntimeExit::Placed { process, stream: stream.state(), outgoing: stream.sender() };
        self.stream = Some(stream);
        self.guard_gone = false;
        Ok((link, exit))
    }

    /// The owner accepts that the runtime may go on there. Where only the end of a place proves the end of
    /// its runtime, this holds for all later daemons.
    pub(crate) async fn give_up(&mut self) {
        self.drop_connections();
        (self.guard_gone, self.supersedes) = (true, true);
        if self.carrier.queue().is_some_and(|queue| !queue.shares_folder())
            && let Err(error) = asked::give_up(&self.carrier, &self.worker).await
        {
            tracing::warn!(worker = %self.worker, %error, "it could not be stored that the place is given up");
        }
    }

    /// Takes over what the present stream has proved about the journal.
    fn see_journal(&mut self) {
        self.journal_lost |= self.stream.as_ref().is_some_and(|stream| stream.state().borrow().journal_lost);
    }

    /// Returns the boot of the place's machine, from the present stream.
    pub(crate) fn boot_id(&self) -> Option<String> {
        self.stream.as_ref()?.state().borrow().boot_id.clone()
    }

    /// Returns the error if the place serves another daemon.
    pub(crate) fn fenced(&self) -> Option<Error> {
        let end = self.stream.as_ref()?.state().borrow().end.clone();
        end.filter(|error| error.code == Code::Fenced)
    }

    /// Whether the end of everything was proved. Opens a stream for the proof if there is none.
    pub(crate) fn is_guard_gone(&mut self, at: DialPosition) -> bool {
        self.see_journal();
        if let Some(stream) = &self.stream {
            self.guard_gone |= stream.state().borrow().proof == EndProof::Guard;
            if self.guard_gone || stream.is_over() {
                self.drop_stream();
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

    fn ending_of(&self, which: WorkerPlaces, at: DialPosition) -> PlaceEnding {
        let newest = at.incarnation;
        let open = StreamOpen { is_known: false, serves_tasks: false, ..self.open(at, None) };
        PlaceEnding { which, tries_given_up: false, newest, newest_ends: false, open }
    }

    /// The begin of a stream.
    fn open(&self, at: DialPosition, container_token: Option<String>) -> StreamOpen {
        StreamOpen {
            protocol: STREAM_PROTOCOL,
            root: self.carrier.root(),
            epoch: at.epoch,
            incarnation: at.incarnation,
            is_known: at.is_known,
            container_token,
            segment: at.cursor.segment,
            offset: at.cursor.offset,
            serves_tasks: self.serving.is_some(),
            is_kept_alive: true,
        }
    }

    fn dial(&mut self, at: DialPosition) -> io::Result<(PlacedStream, tokio::io::DuplexStream)> {
        // Its process ends before the next one writes.
        self.drop_stream();
        let mirror = self.mirror.begin(at.cursor)?;
        let token = self.carrier.token().map_err(|error| io::Error::other(error.message))?;
        let open = self.open(at.clone(), token);
        let dialed = self.dialed.take().and_then(|mut dialed| dialed.runs().then_some(dialed));
        let dial = match (dialed, self.carrier.queue()) {
            (Some(dialed), _) => DialCommand::Started(dialed),
            (None, None) => DialCommand::Known(self.carrier.dial(&self.worker)),
            // The engine says where the runtime is, and whether.
            (None, Some(engine)) => {
                let (carrier, worker) = (self.carrier.clone(), self.worker.clone());
                DialCommand::Asked(Box::pin(async move {
                    queued::dial(&carrier, &engine, &worker, at.incarnation).await
                }))
            }
        };
        let serving = self.serving.clone();
        let hurries = std::mem::take(&mut self.hurries);
        let (stream, frames) = PlacedStream::open(dial, open, mirror, serving, self.carrier.turn(), hurries)?;
        let _ = stream.sender().send(StreamControl::Stored { segment: at.cursor.segment }.into());
        Ok((stream, frames))
    }
}

/// Returns the command socket of a worker. On another machine it is only for display.
///
/// # Errors
/// `SOCKET_PATH_TOO_LONG`.
pub(crate) fn socket_path(
    setup: &DaemonSettings,
    placement: Option<&Placement>,
    worker: &str,
) -> Result<PathBuf> {
    match placement {
        None => setup
            .runtime_dir
            .worker_socket(worker)
            .map_err(|error| Error::new(Code::SocketPathTooLong, error.to_string())),
        // Only `submit` and `dial` use it. They say if it is too long, but in a container or job only late.
        Some(placement) => {
            let path = root_of(placement, setup).join(worker).join("socket");
            let length = path.as_os_str().len();
            if placement.engine.starts_places() && length > SOCKET_PATH_LIMIT {
                let message = format!(
                    "the path of the worker's socket has {length} bytes, and at most {SOCKET_PATH_LIMIT} are possible: {}",
                    path.display()
                );
                return Err(Error::new(Code::SocketPathTooLong, message)
                    .recommend("use a workspace, or a `folder` of the placement, with a shorter path"));
            }
            Ok(path)
        }
    }
}

/// Returns the file with the standard error of a worker's agents. On another machine it is only for
/// display.
pub(crate) fn log_path(setup: &DaemonSettings, placement: Option<&Placement>, worker: &str) -> PathBuf {
    match placement {
        None => setup.state_dir.join("runtimes").join(format!("{worker}.log")),
        Some(placement) => root_of(placement, setup).join(worker).join(PLACED_LOG),
    }
}
