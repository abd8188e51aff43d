//! The main loop of a runtime: waits for the next event, hands it to the conversation, writes the
//! records, and then carries out the conversation's actions. Decides nothing about the worker; the
//! conversation does.

mod agent;
mod alarms;
mod client;
mod daemon;
mod daemon_restart;
mod effects;
mod lifetime;

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;

use interprocess::local_socket::tokio::Stream;
use subagent_protocol::MAX_LINE_BYTES;
use subagent_protocol::frame::JournalEnd;
use subagent_protocol::ids::{RequestId, WorkerId};
use subagent_protocol::process::ProcessId;
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, watch as latest};
use tokio::task::JoinSet;

use crate::acp::lines::LineSplitter;
use crate::acp::outgoing::Outgoing;
use crate::acp::requests;
use crate::client::{self as asked_of_us, ClientExecutor};
use crate::conversation::{
    Conversation, ConversationAction, ConversationConfig, ConversationInput, Exit, Storage,
};
use crate::daemon_start::DaemonStartInput as Daemon;
use crate::daemon_start::starter::DaemonStarter;
use crate::journal::{Identity, Journal, JournalLayout};
use crate::memory;
use crate::socket::{ConnectionEvent, Endpoint};
use crate::spawn::{self, AgentIo};
use crate::startup::{self, Startup};
use crate::stderr::{StderrLog, StderrTail};
use crate::watch::FileWatch;
use alarms::{Alarm, Alarms};
use daemon::Serving;
use daemon_restart::DaemonReplacement;
#[cfg(feature = "testing")]
pub(crate) use effects::withhold;

/// Capacity of the event channel of all connections; senders wait when it is full.
const EVENTS: usize = 16;
/// Time limit for the last frames.
const FLUSH_TIMEOUT: Duration = Duration::from_millis(500);

/// What is known about the agent's process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AgentExit {
    /// The process is running.
    Running,
    /// The process ended; its output is still being read.
    Pending(Exit),
    /// The conversation knows about the exit.
    Delivered,
}

struct Driver {
    worker_id: WorkerId,
    incarnation: u64,
    directory: PathBuf,
    socket_path: PathBuf,
    lock: File,
    journal: Journal,
    conversation: Conversation,
    tail: StderrTail,
    log: StderrLog,
    agent: Option<AgentIo>,
    guard: Option<ProcessId>,
    splitter: LineSplitter,
    outgoing: Outgoing,
    closes_input: bool,
    status_lines: LineSplitter,
    exit: AgentExit,
    /// Number of processes killed, and milliseconds.
    clean: Option<(u64, u64)>,
    alarms: Alarms,
    /// Actions that wait for their records.
    withheld: Vec<ConversationAction>,
    /// Client requests whose records are written.
    calls: VecDeque<u64>,
    serves_calls: bool,
    client: ClientExecutor,
    storage: Storage,
    retry_after: Duration,
    abandoned: bool,
    /// `None` while the system has no watch for us. The files are then checked periodically.
    watch: Option<FileWatch>,
    look_after: Duration,
    endpoint: Option<Endpoint>,
    rebind_after: Duration,
    events: mpsc::Receiver<ConnectionEvent>,
    events_in: mpsc::Sender<ConnectionEvent>,
    ends: latest::Sender<JournalEnd>,
    connections: JoinSet<()>,
    next_connection: u64,
    serving: Option<Serving>,
    /// `None` if another process has to start a daemon.
    daemon_restart: Option<DaemonReplacement>,
    generation: u64,
    signals: DriverSignals,
    done: bool,
}

struct DriverSignals {
    terminate: Signal,
    child: Signal,
    /// Handlers that do nothing. The agent would inherit ignored signals.
    _ignored: [Signal; 2],
}

/// The event that ended a wait.
enum Wake {
    Output,
    Errors,
    Writable,
    GuardStatus,
    Accepted(io::Result<Stream>),
    Event(ConnectionEvent),
    DaemonSays,
    Client(asked_of_us::ClientEvent),
    Alarm(Alarm),
    FilesChanged,
    Terminated,
    ChildExited,
}

/// Runs one worker to its end.
///
/// # Errors
///
/// It could not begin: no journal or no socket. The journal contains later errors.
pub(crate) async fn run(startup: Startup) -> io::Result<()> {
    let Startup { start, lock, guard_lock } = startup;
    let mut driver = Driver::begin(&start, lock, guard_lock.try_clone()?)?;
    startup::say_listening()?;
    driver.apply(ConversationInput::Begin);
    let spawned = driver
        .client
        .proxy_channel()
        .and_then(|proxy| spawn::spawn(&start.agent, &start.marker, guard_lock, proxy));
    match spawned {
        Ok(agent) => driver.started(agent),
        Err(error) => driver.apply(ConversationInput::SpawnFailed {
            errno: error.raw_os_error().unwrap_or(0),
            message: format!("{error} (working directory {})", start.agent.cwd.display()),
        }),
    }
    // Parsing the agent's environment took several times its size.
    drop(start);
    memory::trim();
    while !driver.done {
        let wake = driver.wait().await;
        driver.take(wake);
    }
    driver.finish().await;
    Ok(())
}

impl Driver {
    fn begin(
        start: &subagent_protocol::start::RuntimeStart,
        lock: File,
        guard_lock: OwnedFd,
    ) -> io::Result<Self> {
        let layout = JournalLayout {
            directory: start.directory.clone(),
            segment: start.segment,
            first_record: start.first_record,
            segment_bytes: start.limits.segment_bytes,
            quota_bytes: start.limits.journal_quota_bytes,
        };
        let identity = Identity {
            worker_id: start.worker_id.clone(),
            incarnation: start.incarnation,
            boot_id: start.boot_id.clone(),
        };
        let journal = Journal::begin(layout, identity)?;
        let endpoint = Endpoint::bind(&start.socket)?;
        let conversation = Conversation::new(ConversationConfig {
            session: start.session.clone(),
            resume_only: start.resume_only,
            restore_failures: start.restore_failures.clone(),
            context: requests::SessionContext {
                cwd: start.agent.cwd.to_string_lossy().into_owned(),
                additional_directories: start
                    .additional_directories
                    .iter()
                    .map(|path| path.to_string_lossy().into_owned())
                    .collect(),
                mcp_servers: start.mcp_servers.clone(),
                instructions: start.instructions.clone(),
                system_prompt: false,
            },
            command: std::iter::once(&start.agent.program).chain(&start.agent.args).cloned().collect(),
            timeouts: start.timeouts,
            last_turn: start.last_turn,
            options: start.options.clone(),
            login: start.login.clone(),
            client_rules: start.client_rules.clone(),
            make_request_id: Box::new(random_request_id),
        });
        let (events_in, events) = mpsc::channel(EVENTS);
        let mut driver = Self {
            worker_id: start.worker_id.clone(),
            incarnation: start.incarnation,
            directory: start.directory.clone(),
            socket_path: start.socket.clone(),
            lock,
            ends: latest::Sender::new(journal.end()),
            journal,
            conversation,
            tail: StderrTail::default(),
            log: StderrLog::open(&start.log),
            agent: None,
            guard: None,
            splitter: LineSplitter::new(
                usize::try_from(start.limits.max_line_bytes)
                    .map_or(MAX_LINE_BYTES, |limit| limit.min(MAX_LINE_BYTES)),
            ),
            outgoing: Outgoing::default(),
            closes_input: false,
            status_lines: LineSplitter::new(agent::STATUS_LINE_BYTES),
            exit: AgentExit::Running,
            clean: None,
            alarms: Alarms::default(),
            withheld: Vec::new(),
            calls: VecDeque::new(),
            serves_calls: false,
            client: ClientExecutor::new(start, guard_lock)?,
            storage: Storage::Ok,
            retry_after: effects::FIRST_RETRY,
            abandoned: false,
            watch: None,
            look_after: lifetime::FIRST_LOOK,
            endpoint: Some(endpoint),
            rebind_after: lifetime::FIRST_REBIND,
            events,
            events_in,
            connections: JoinSet::new(),
            next_connection: 0,
            serving: None,
            daemon_restart: start
                .daemon
                .clone()
                .and_then(|start| DaemonStarter::new(start).ok())
                .map(DaemonReplacement::new),
            generation: start.generation,
            signals: DriverSignals {
                terminate: signal(SignalKind::terminate())?,
                child: signal(SignalKind::child())?,
                _ignored: [signal(SignalKind::hangup())?, signal(SignalKind::interrupt())?],
            },
            done: false,
        };
        driver.watch_files();
        driver.expect_a_daemon();
        driver.decide(Daemon::Lost);
        Ok(driver)
    }

    /// Waits for the next event. Takes nothing from its sources, except connections and frames.
    async fn wait(&mut self) -> Wake {
        let reads = self.reads_output();
        let writes = !self.outgoing.is_empty();
        let accepts = !self.alarms.is_set(Alarm::Accept);
        let agent = self.agent.as_ref();
        let starting =
            self.daemon_restart.as_ref().and_then(|daemon_restart| daemon_restart.starting.as_ref());
        let starting = starting.map(|starting| &starting.output);
        tokio::select! {
            () = readable(agent.and_then(|agent| agent.output.as_ref())), if reads => Wake::Output,
            () = readable(agent.and_then(|agent| agent.errors.as_ref())) => Wake::Errors,
            () = writable(agent.and_then(|agent| agent.input.as_ref())), if writes => Wake::Writable,
            () = readable(agent.and_then(|agent| agent.status.as_ref())) => Wake::GuardStatus,
            stream = accept(self.endpoint.as_ref()), if accepts => Wake::Accepted(stream),
            // The driver owns a sender, so the channel cannot end.
            Some(event) = self.events.recv() => Wake::Event(event),
            () = readable(starting) => Wake::DaemonSays,
            // As above: the client owns a sender.
            Some(event) = self.client.events.recv() => Wake::Client(event),
            alarm = self.alarms.next() => Wake::Alarm(alarm),
            () = changed(self.watch.as_ref()) => Wake::FilesChanged,
            _ = self.signals.terminate.recv() => Wake::Terminated,
            _ = self.signals.child.recv() => Wake::ChildExited,
        }
    }

    fn take(&mut self, wake: Wake) {
        match wake {
            Wake::Output => self.read_output(),
            Wake::Errors => self.read_errors(),
            Wake::Writable => {
                self.write_input();
                self.serve_calls();
            }
            Wake::GuardStatus => self.read_status(),
            Wake::Accepted(stream) => self.accepted(stream),
            Wake::Event(event) => self.event(event),
            Wake::DaemonSays => self.read_readiness(),
            Wake::Client(event) => self.client_event(event),
            Wake::Alarm(alarm) => self.alarm(alarm),
            Wake::FilesChanged => self.look_at_files(),
            Wake::Terminated => self.apply(ConversationInput::End { reason: "SIGTERM".to_owned() }),
            Wake::ChildExited => self.reap(),
        }
    }

    fn alarm(&mut self, alarm: Alarm) {
        match alarm {
            Alarm::Conversation(timer) => self.apply(ConversationInput::Timer(timer)),
            Alarm::Drain => self.deliver_exit(),
            Alarm::PipeClosed if self.exit == AgentExit::Running => self.apply(ConversationInput::PipeClosed),
            Alarm::PipeClosed => {}
            Alarm::Retry => self.settle(Vec::new()),
            Alarm::Quota => self.look_at_quota(),
            Alarm::Orphaned => self.orphaned(),
            Alarm::DaemonCheck => self.decide(Daemon::Due),
            Alarm::Rebind => self.rebind(),
            Alarm::Look => self.look_and_watch(),
            Alarm::Rescue => self.rescue(),
            Alarm::RescueLost => {
                self.rescue_lost();
                self.try_deliver_exit();
            }
            Alarm::TerminalStart => self.give_up_start(),
            Alarm::Accept => {}
            Alarm::Trim => memory::trim(),
        }
    }

    /// Sends the last frames and waits for the guard. Afterwards only the journal is
    /// left of this runtime.
    async fn finish(mut self) {
        if let Some(endpoint) = self.endpoint.take() {
            endpoint.remove();
        }
        // Connections send the journal's last end and then see that no other follows.
        drop(self.ends);
        let connections = &mut self.connections;
        let mut guard = self.agent.take().map(|agent| agent.guard);
        let signals = &mut self.signals;
        let all = async {
            while connections.join_next().await.is_some() {}
            // The guard's locks are free once it is reaped. A process that waits for our end need
            // not wait for the guard's.
            while guard.as_mut().is_some_and(|guard| matches!(guard.try_wait(), Ok(None))) {
                signals.child.recv().await;
            }
        };
        let _ = tokio::time::timeout(FLUSH_TIMEOUT, all).await;
    }
}

async fn readable(pipe: Option<&Receiver>) {
    match pipe {
        Some(pipe) => {
            // The next read reports an error again.
            let _ = pipe.readable().await;
        }
        None => std::future::pending().await,
    }
}

async fn writable(pipe: Option<&Sender>) {
    match pipe {
        Some(pipe) => {
            let _ = pipe.writable().await;
        }
        None => std::future::pending().await,
    }
}

async fn changed(watch: Option<&FileWatch>) {
    match watch {
        Some(watch) => watch.changed().await,
        None => std::future::pending().await,
    }
}

async fn accept(endpoint: Option<&Endpoint>) -> io::Result<Stream> {
    match endpoint {
        Some(endpoint) => endpoint.accept().await,
        None => std::future::pending().await,
    }
}

fn random_request_id() -> Option<RequestId> {
    let mut bytes = [0; RequestId::BYTES];
    getrandom::fill(&mut bytes).ok()?;
    Some(RequestId::from_random(bytes))
}
