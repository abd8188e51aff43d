//! The I/O loop around the state machine: pipes, the guard, one deadline.
//!
//! Decides nothing about content; [`super::machine`] does.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::PathBuf;
use std::time::Duration;

use subagent_protocol::ask::{AgentQuery, AgentQueryOutput};
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::Instant;

use super::machine::{AgentQueryAction, AgentQueryInput, AgentQueryMachine, QueryContext};
use crate::acp::lines::{AgentLine, LineSplitter};
use crate::acp::outgoing::Outgoing;
use crate::conversation::Exit;
use crate::guard::{self, GuardStatus};
use crate::spawn::{self, AgentIo};
use crate::stderr::{self, StderrTail};

/// Maximum length of an agent's line, in bytes: far more than any agent needs.
const MAX_LINE_BYTES: usize = 8 * 1024 * 1024;
/// Maximum unread output of the agent's stderr, in bytes. The rest is not forwarded.
const MAX_UNREAD_BYTES: usize = 256 * 1024;
const CHUNK_BYTES: usize = 64 * 1024;
const STATUS_LINE_BYTES: usize = 16 * 1024;
/// How long remaining processes may hold the pipes open before the agent's end is reported.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);
/// How long one round takes that ends the descendants of a dead guard.
const RESCUE_ROUND: Duration = Duration::from_secs(2);
const RESCUE_PAUSE: Duration = Duration::from_secs(1);

/// A directory that is removed on drop.
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        // The caller that made the directory may have removed it already.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The event that ended a wait.
enum QueryWake {
    Output,
    Errors,
    Writable,
    Readable,
    Status,
    Asker,
    Deadline,
    Drained,
    Rescue,
    Terminated,
    ChildExited,
}

enum PipeChunk {
    Bytes(Vec<u8>),
    NotNow,
    End,
}

struct QueryDriver {
    machine: AgentQueryMachine,
    begun: Instant,
    agent: Option<AgentIo>,
    outgoing: Outgoing,
    closes_input: bool,
    lines: LineSplitter,
    status_lines: LineSplitter,
    tail: StderrTail,
    /// How the agent ended. Its output is still being read.
    exit: Option<Exit>,
    clean: bool,
    timers: QueryTimers,
    /// Reads the caller's end of input; `None` once the caller is gone.
    asker: Option<Receiver>,
    response: ResponseWriter,
    done: bool,
}

/// Asks the question and writes the answer.
///
/// # Errors
///
/// The question could not be started, or the answer cannot be written.
pub(super) async fn run(ask: AgentQuery) -> io::Result<()> {
    let AgentQuery { agent, temporary_cwd, question, deadlines, .. } = ask;
    let _folder = temporary_cwd.then(|| Temporary(agent.cwd.clone()));
    let cwd = agent.cwd.to_string_lossy().into_owned();
    let command = std::iter::once(&agent.program).chain(&agent.args).cloned().collect();
    let machine = AgentQueryMachine::new(question, deadlines, cwd, command);
    let mut terminate = signal(SignalKind::terminate())?;
    let mut child = signal(SignalKind::child())?;
    // Installs handlers that do nothing. The agent would inherit ignored signals.
    let _ignored = [signal(SignalKind::hangup())?, signal(SignalKind::interrupt())?];
    let mut driver = QueryDriver {
        begun: Instant::now(),
        timers: QueryTimers {
            deadline: Instant::now().checked_add(machine.first_deadline()),
            ..Default::default()
        },
        machine,
        agent: None,
        outgoing: Outgoing::default(),
        closes_input: false,
        lines: LineSplitter::new(MAX_LINE_BYTES),
        status_lines: LineSplitter::new(STATUS_LINE_BYTES),
        tail: StderrTail::default(),
        exit: None,
        clean: false,
        asker: Some(Receiver::from_owned_fd(io::stdin().as_fd().try_clone_to_owned()?)?),
        response: ResponseWriter {
            to: Sender::from_owned_fd(io::stdout().as_fd().try_clone_to_owned()?)?,
            waiting: Vec::new(),
        },
        done: false,
    };
    let marker = format!("ask.{}", std::process::id());
    // There is no worker, so the guard has no lock to hold.
    let no_lock = OwnedFd::from(File::open("/dev/null")?);
    match spawn::spawn(&agent, &marker, no_lock, None) {
        Ok(io) => driver.agent = Some(io),
        Err(error) => driver.apply(AgentQueryInput::SpawnFailed {
            errno: error.raw_os_error().unwrap_or(0),
            message: format!("{error} (working directory {})", agent.cwd.display()),
        }),
    }
    // Holds the agent's environment, which may contain secrets.
    drop(agent);
    while !driver.done {
        let wake = driver.wait(&mut terminate, &mut child).await;
        driver.take(wake);
    }
    if let Some(mut agent) = driver.agent.take().filter(|_| driver.clean) {
        // The guard has reported that nothing is left, or has died.
        while matches!(agent.guard.try_wait(), Ok(None)) {
            child.recv().await;
        }
    }
    driver.response.send(&AgentQueryOutput::Done(Box::new(driver.machine.into_answer())))?;
    driver.response.finish().await
}

/// Output that waits for the caller. A stopped caller must not delay the agent's deadlines.
struct ResponseWriter {
    to: Sender,
    waiting: Vec<u8>,
}

impl ResponseWriter {
    fn send(&mut self, reply: &AgentQueryOutput) -> io::Result<()> {
        serde_json::to_writer(&mut self.waiting, reply)?;
        self.waiting.push(b'\n');
        Ok(())
    }

    /// Writes as much as possible without blocking. A write error needs no handling: end of input
    /// reports that the caller is gone.
    fn write(&mut self) {
        while !self.waiting.is_empty() {
            match self.to.try_write(&self.waiting) {
                Ok(length) => drop(self.waiting.drain(..length)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => self.waiting.clear(),
            }
        }
    }

    /// Writes everything. The agent is gone by now, so this waits for the caller without a limit.
    async fn finish(&mut self) -> io::Result<()> {
        while !self.waiting.is_empty() {
            self.to.writable().await?;
            self.write();
        }
        Ok(())
    }
}

fn read(pipe: Option<&Receiver>) -> PipeChunk {
    let Some(pipe) = pipe else { return PipeChunk::NotNow };
    let mut bytes = Vec::with_capacity(CHUNK_BYTES);
    match pipe.try_read_buf(&mut bytes) {
        Ok(0) => PipeChunk::End,
        Ok(_) => PipeChunk::Bytes(bytes),
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
            PipeChunk::NotNow
        }
        Err(_) => PipeChunk::End,
    }
}

async fn readable(pipe: Option<&Receiver>) {
    match pipe {
        Some(pipe) => drop(pipe.readable().await),
        None => std::future::pending().await,
    }
}

async fn writable(pipe: Option<&Sender>) {
    match pipe {
        Some(pipe) => drop(pipe.writable().await),
        None => std::future::pending().await,
    }
}

/// The times at which something is due.
#[derive(Default)]
struct QueryTimers {
    /// When the question has taken too long.
    deadline: Option<Instant>,
    /// When the agent's end is reported although its pipes are open.
    drain: Option<Instant>,
    /// When the descendants of a dead guard are ended again.
    rescue: Option<Instant>,
}

impl QueryTimers {
    /// Waits for the first one, and returns which it is.
    async fn next(&self) -> QueryWake {
        tokio::select! {
            () = at(self.deadline) => QueryWake::Deadline,
            () = at(self.drain) => QueryWake::Drained,
            () = at(self.rescue) => QueryWake::Rescue,
        }
    }

    /// Limits how long the pipes are read after the agent has closed one.
    fn begin_to_drain(&mut self) {
        self.drain.get_or_insert(Instant::now() + DRAIN_TIMEOUT);
    }
}

async fn at(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}

impl QueryDriver {
    async fn wait(&mut self, terminate: &mut Signal, child: &mut Signal) -> QueryWake {
        let agent = self.agent.as_ref();
        let writes = !self.outgoing.is_empty();
        tokio::select! {
            () = readable(agent.and_then(|agent| agent.output.as_ref())) => QueryWake::Output,
            () = readable(agent.and_then(|agent| agent.errors.as_ref())) => QueryWake::Errors,
            () = writable(agent.and_then(|agent| agent.input.as_ref())), if writes => QueryWake::Writable,
            () = writable(Some(&self.response.to)), if !self.response.waiting.is_empty() => QueryWake::Readable,
            () = readable(agent.and_then(|agent| agent.status.as_ref())) => QueryWake::Status,
            () = readable(self.asker.as_ref()) => QueryWake::Asker,
            wake = self.timers.next() => wake,
            _ = terminate.recv() => QueryWake::Terminated,
            _ = child.recv() => QueryWake::ChildExited,
        }
    }

    fn take(&mut self, wake: QueryWake) {
        match wake {
            QueryWake::Output => self.read_output(),
            QueryWake::Errors => self.read_errors(),
            QueryWake::Writable => self.write_input(),
            QueryWake::Readable => self.response.write(),
            QueryWake::Status => self.read_status(),
            QueryWake::Asker => match read(self.asker.as_ref()) {
                PipeChunk::End => {
                    self.asker = None;
                    self.apply(AgentQueryInput::HungUp);
                }
                // The agent is expected to write nothing there.
                PipeChunk::Bytes(_) | PipeChunk::NotNow => {}
            },
            QueryWake::Deadline => {
                self.timers.deadline = None;
                self.apply(AgentQueryInput::Deadline);
            }
            QueryWake::Drained => {
                self.timers.drain = None;
                match self.exit.take() {
                    Some(exit) => self.ended(exit),
                    None => self.apply(AgentQueryInput::PipeClosed),
                }
            }
            QueryWake::Rescue => self.end_descendants(),
            QueryWake::Terminated => self.apply(AgentQueryInput::HungUp),
            QueryWake::ChildExited => {
                if let Some(agent) = &mut self.agent {
                    // The exit status adds nothing to the guard's last line.
                    let _ = agent.guard.try_wait();
                }
            }
        }
    }

    fn apply(&mut self, input: AgentQueryInput<'_>) {
        let (tail, now) = (&self.tail, millis_since(self.begun));
        let mut cx = QueryContext { now, tail: &|| tail.text(), actions: Vec::new() };
        self.machine.handle(input, &mut cx);
        for action in cx.actions {
            self.perform(action);
        }
        self.write_input();
    }

    fn perform(&mut self, action: AgentQueryAction) {
        match action {
            AgentQueryAction::Send(line) => self.outgoing.push(line),
            AgentQueryAction::Deadline(after) => self.timers.deadline = Instant::now().checked_add(after),
            AgentQueryAction::CloseInput => self.closes_input = true,
            AgentQueryAction::Terminate => self.signal_guard(guard::TERMINATE),
            AgentQueryAction::Stdout(line) => self.tail.push(&stderr::of_stdout(&line)),
            AgentQueryAction::EndTree => self.signal_guard(guard::END),
            AgentQueryAction::Finish => self.done = true,
        }
    }

    fn signal_guard(&mut self, byte: u8) {
        if let Some(agent) = &mut self.agent {
            agent.signal_guard(byte);
        }
    }

    fn read_output(&mut self) {
        let chunk = read(self.agent.as_ref().and_then(|agent| agent.output.as_ref()));
        let mut actions = Vec::new();
        let (machine, tail, now) = (&mut self.machine, &self.tail, millis_since(self.begun));
        let on_line = |line: AgentLine<'_>| {
            let mut cx = QueryContext { now, tail: &|| tail.text(), actions: Vec::new() };
            machine.handle(AgentQueryInput::Line(line), &mut cx);
            actions.extend(cx.actions);
        };
        let ended = match chunk {
            PipeChunk::NotNow => return,
            PipeChunk::Bytes(bytes) => {
                self.lines.feed(&bytes, on_line);
                false
            }
            PipeChunk::End => {
                self.lines.finish(on_line);
                true
            }
        };
        for action in actions {
            self.perform(action);
        }
        self.write_input();
        if ended {
            if let Some(agent) = &mut self.agent {
                agent.output = None;
            }
            self.pipe_ended();
        }
    }

    fn read_errors(&mut self) {
        match read(self.agent.as_ref().and_then(|agent| agent.errors.as_ref())) {
            PipeChunk::NotNow => {}
            PipeChunk::Bytes(bytes) => {
                self.tail.push(&bytes);
                if self.machine.shows_stderr() {
                    let text = String::from_utf8_lossy(&bytes).into_owned();
                    if self.response.waiting.len() < MAX_UNREAD_BYTES {
                        // The output is text, so it always forms a line.
                        let _ = self.response.send(&AgentQueryOutput::Stderr { text });
                    }
                    self.response.write();
                }
            }
            PipeChunk::End => {
                if let Some(agent) = &mut self.agent {
                    agent.errors = None;
                }
                self.deliver_if_drained();
            }
        }
    }

    fn write_input(&mut self) {
        while let Some(input) = self.agent.as_ref().and_then(|agent| agent.input.as_ref()) {
            let Some(bytes) = self.outgoing.front() else {
                if self.closes_input {
                    self.drop_input();
                }
                return;
            };
            match input.try_write(bytes) {
                Ok(length) => drop(self.outgoing.wrote(length)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && !self.closes_input => return,
                // An agent that does not read its input must not delay the end of that input.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return self.drop_input(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => {
                    self.drop_input();
                    return self.pipe_ended();
                }
            }
        }
        // The agent cannot be written to.
        self.outgoing.clear();
    }

    fn drop_input(&mut self) {
        if let Some(agent) = &mut self.agent {
            agent.input = None;
        }
        self.outgoing.clear();
    }

    /// The agent no longer reads or writes. If it has ended, the guard will report that.
    fn pipe_ended(&mut self) {
        self.timers.begin_to_drain();
        self.deliver_if_drained();
    }

    fn read_status(&mut self) {
        match read(self.agent.as_ref().and_then(|agent| agent.status.as_ref())) {
            PipeChunk::NotNow => {}
            PipeChunk::Bytes(bytes) => {
                for status in self.status_lines.read::<GuardStatus>(&bytes) {
                    self.guard_says(status);
                }
            }
            PipeChunk::End => {
                if let Some(agent) = &mut self.agent {
                    agent.status = None;
                }
                if !self.clean && !self.done {
                    self.end_descendants();
                }
            }
        }
    }

    fn guard_says(&mut self, status: GuardStatus) {
        match status {
            GuardStatus::Spawned { .. } => self.apply(AgentQueryInput::Spawned),
            GuardStatus::SpawnFailed { errno, message } => {
                self.clean = true;
                self.apply(AgentQueryInput::SpawnFailed { errno, message });
            }
            GuardStatus::Exited { code, signal, .. } => {
                self.exit = Some(Exit { code, signal });
                self.timers.drain = Some(Instant::now() + DRAIN_TIMEOUT);
                self.deliver_if_drained();
            }
            GuardStatus::Clean { .. } => {
                self.clean = true;
                self.deliver_if_drained();
            }
            GuardStatus::Ending | GuardStatus::Incomplete { .. } | GuardStatus::Unknown => {}
        }
    }

    fn deliver_if_drained(&mut self) {
        let drained =
            self.agent.as_ref().is_none_or(|agent| agent.output.is_none() && agent.errors.is_none());
        match self.exit {
            Some(exit) if drained => {
                self.exit = None;
                self.ended(exit);
            }
            Some(_) => {}
            None if self.clean => self.apply(AgentQueryInput::TreeEnded),
            None => {}
        }
    }

    fn ended(&mut self, exit: Exit) {
        self.timers.drain = None;
        self.apply(AgentQueryInput::AgentExited(exit));
        if self.clean {
            self.apply(AgentQueryInput::TreeEnded);
        }
    }

    /// Ends the processes in place of a dead guard.
    fn end_descendants(&mut self) {
        self.timers.rescue = None;
        let report = guard::end_descendants(RESCUE_ROUND, &[]);
        if report.clean {
            self.clean = true;
            self.apply(AgentQueryInput::TreeEnded);
        } else {
            self.timers.rescue = Some(Instant::now() + RESCUE_PAUSE);
        }
    }
}

fn millis_since(begun: Instant) -> u64 {
    u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX)
}
