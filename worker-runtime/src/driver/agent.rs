//! The pipes of the agent and of the guard.
//!
//! Nothing here blocks: a read or write that would block is repeated when the pipe is ready.

use std::future::Future as _;
use std::io;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use subagent_protocol::process::ProcessId;
use subagent_protocol::record::AgentStarted;
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe::Receiver;

use super::alarms::Alarm;
use super::{AgentExit, Driver};
use crate::acp::lines::AgentLine;
use crate::acp::outgoing::OutgoingKind;
use crate::conversation::{ConversationInput, Cx, Exit};
use crate::guard::{self, GuardStatus, ancestry};
use crate::spawn::AgentIo;
use crate::stderr;

/// Maximum bytes per read from the agent, and per write to the journal.
const OUTPUT_BYTES: usize = 64 * 1024;
/// A read of at least this many bytes is part of a burst. A burst ends when none follows
/// for the pause below.
const BURST_BYTES: usize = 16 * 1024;
const BURST_PAUSE: Duration = Duration::from_secs(1);
const ERROR_BYTES: usize = 4 * 1024;
/// Maximum length of a status line in bytes: the guard names at most 64 pids.
pub(super) const STATUS_LINE_BYTES: usize = 16 * 1024;
/// How long remaining processes may hold the pipes open before the agent's end is reported.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);
/// Duration of one round that ends the descendants of a dead guard.
const RESCUE_ROUND: Duration = Duration::from_secs(2);
const RESCUE_PAUSE: Duration = Duration::from_secs(1);

enum AgentOutputChunk {
    Bytes(Vec<u8>),
    NotNow,
    End,
}

/// Reads what is available. The buffer lives only while its content is processed: an
/// idle runtime holds none.
///
/// Polls instead of trying. A read that does not fill the buffer then counts as the last one. This
/// saves a read from an empty pipe.
fn read(pipe: Option<&mut Receiver>, capacity: usize) -> AgentOutputChunk {
    let Some(pipe) = pipe else { return AgentOutputChunk::NotNow };
    let mut bytes = Vec::with_capacity(capacity);
    let polled = pin!(pipe.read_buf(&mut bytes)).poll(&mut Context::from_waker(Waker::noop()));
    match polled {
        Poll::Ready(Ok(0)) => AgentOutputChunk::End,
        Poll::Ready(Ok(_)) => AgentOutputChunk::Bytes(bytes),
        Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::Interrupted => AgentOutputChunk::NotNow,
        Poll::Ready(Err(_)) => AgentOutputChunk::End,
        Poll::Pending => AgentOutputChunk::NotNow,
    }
}

impl Driver {
    /// The guard is running.
    pub(super) fn started(&mut self, agent: AgentIo) {
        let pid = i32::try_from(agent.guard.id()).unwrap_or_default();
        // Start time 0 where the system does not know it. This value never selects
        // a process to kill.
        self.guard = Some(ProcessId { pid, start_time: ancestry::start_time(pid).unwrap_or_default() });
        self.agent = Some(agent);
    }

    pub(super) fn read_output(&mut self) {
        match read(self.agent.as_mut().and_then(|agent| agent.output.as_mut()), OUTPUT_BYTES) {
            AgentOutputChunk::NotNow => {}
            AgentOutputChunk::Bytes(bytes) => {
                self.take_output(Some(&bytes));
                if bytes.len() >= BURST_BYTES {
                    self.alarms.set(Alarm::Trim, BURST_PAUSE);
                }
            }
            AgentOutputChunk::End => {
                if let Some(agent) = &mut self.agent {
                    agent.output = None;
                }
                self.take_output(None);
                self.pipe_ended();
            }
        }
    }

    /// Handles one chunk; all its lines go into one write to the journal.
    fn take_output(&mut self, bytes: Option<&[u8]>) {
        let mut actions = Vec::new();
        self.journal.batch.set_time();
        let (conversation, batch, tail) = (&mut self.conversation, &mut self.journal.batch, &self.tail);
        let on_line = |line: AgentLine<'_>| {
            conversation
                .handle(ConversationInput::Line(line), &mut Cx { batch, actions: &mut actions, tail });
        };
        match bytes {
            Some(bytes) => self.splitter.feed(bytes, on_line),
            None => self.splitter.finish(on_line),
        }
        self.settle(actions);
    }

    pub(super) fn read_errors(&mut self) {
        match read(self.agent.as_mut().and_then(|agent| agent.errors.as_mut()), ERROR_BYTES) {
            AgentOutputChunk::NotNow => {}
            AgentOutputChunk::Bytes(bytes) => self.take_errors(&bytes),
            AgentOutputChunk::End => {
                if let Some(agent) = &mut self.agent {
                    agent.errors = None;
                }
                self.try_deliver_exit();
            }
        }
    }

    pub(super) fn take_errors(&mut self, bytes: &[u8]) {
        let (log, tail): (&mut stderr::StderrLog, &mut stderr::StderrTail) = (&mut self.log, &mut self.tail);
        log.write(bytes);
        tail.push(bytes);
    }

    pub(super) fn write_input(&mut self) {
        while let Some(input) = self.agent.as_ref().and_then(|agent| agent.input.as_ref()) {
            let Some(bytes) = self.outgoing.front() else {
                if self.closes_input {
                    self.drop_input();
                }
                return;
            };
            match input.try_write(bytes) {
                Ok(length) => match self.outgoing.wrote(length) {
                    Some(OutgoingKind::Prompt) => subagent_failpoint::hit("dispatch.after_write"),
                    Some(OutgoingKind::Answer) => subagent_failpoint::hit("answer.after_write"),
                    Some(OutgoingKind::Plain | OutgoingKind::Result | OutgoingKind::Automatic) | None => {}
                },
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => {
                    self.drop_input();
                    self.pipe_ended();
                    return;
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

    /// Closes the agent's input after the queued lines.
    pub(super) fn close_input(&mut self) {
        self.closes_input = true;
        self.write_input();
    }

    /// The agent no longer reads or writes. If it has ended, the guard will report that.
    fn pipe_ended(&mut self) {
        if self.exit == AgentExit::Running {
            self.alarms.set(Alarm::PipeClosed, DRAIN_TIMEOUT);
        }
        self.try_deliver_exit();
    }

    pub(super) fn signal_guard(&mut self, byte: u8) {
        if let Some(agent) = &mut self.agent {
            agent.signal_guard(byte);
        }
    }

    pub(super) fn read_status(&mut self) {
        match read(self.agent.as_mut().and_then(|agent| agent.status.as_mut()), ERROR_BYTES) {
            AgentOutputChunk::NotNow => {}
            AgentOutputChunk::Bytes(bytes) => {
                for status in self.status_lines.read::<GuardStatus>(&bytes) {
                    self.guard_says(status);
                }
            }
            AgentOutputChunk::End => {
                if let Some(agent) = &mut self.agent {
                    agent.status = None;
                }
                self.reap();
                if self.clean.is_none() && !self.done {
                    self.log.note("the guard died; its processes are ended by the runtime");
                    self.rescue();
                }
            }
        }
    }

    fn guard_says(&mut self, status: GuardStatus) {
        match status {
            GuardStatus::Spawned { pid } => {
                if let Some(guard) = self.guard {
                    self.apply(ConversationInput::AgentStarted(AgentStarted { agent_pid: pid, guard }));
                }
            }
            GuardStatus::SpawnFailed { errno, message } => {
                self.clean = Some((0, 0));
                self.exit = AgentExit::Delivered;
                self.apply(ConversationInput::SpawnFailed { errno, message });
            }
            GuardStatus::Exited { code, signal, .. } => {
                self.exit = AgentExit::Pending(Exit { code, signal });
                self.alarms.set(Alarm::Drain, DRAIN_TIMEOUT);
                self.try_deliver_exit();
            }
            GuardStatus::Ending => subagent_failpoint::hit("end.before_clean"),
            GuardStatus::Incomplete { pids } => {
                self.log.note(&format!("these processes could not be ended yet: {pids:?}"));
            }
            GuardStatus::Clean { killed, millis } => {
                subagent_failpoint::hit("end.after_clean");
                self.clean = Some((u64::from(killed), millis));
                self.try_deliver_exit();
            }
            GuardStatus::Unknown => {}
        }
    }

    /// Reports the agent's exit to the conversation, once all its output was handed in.
    pub(super) fn try_deliver_exit(&mut self) {
        let drained =
            self.agent.as_ref().is_none_or(|agent| agent.output.is_none() && agent.errors.is_none());
        if drained || !matches!(self.exit, AgentExit::Pending(_)) {
            self.deliver_exit();
        }
    }

    pub(super) fn deliver_exit(&mut self) {
        if let AgentExit::Pending(exit) = self.exit {
            self.exit = AgentExit::Delivered;
            self.alarms.clear(Alarm::Drain);
            self.apply(ConversationInput::AgentExited(exit));
        }
        // The proof covers everything that the agent has started, also through this runtime.
        if let Some((killed, millis)) = self.clean.filter(|_| self.client.all_ended()) {
            self.apply(ConversationInput::TreeEnded { killed, millis });
        }
    }

    /// Reaps the guard, if it has ended.
    pub(super) fn reap(&mut self) {
        if let Some(agent) = &mut self.agent {
            // The exit status adds nothing to the guard's last line.
            let _ = agent.guard.try_wait();
        }
        self.client.reap();
        self.try_deliver_exit();
    }

    /// Ends the processes in place of a dead guard.
    pub(super) fn rescue(&mut self) {
        let report = guard::end_descendants(RESCUE_ROUND, &[]);
        if !report.clean {
            self.log.note(&format!("these processes could not be ended yet: {:?}", report.remaining));
            self.alarms.set(Alarm::Rescue, RESCUE_PAUSE);
            return;
        }
        self.clean =
            Some((u64::from(report.killed), u64::try_from(report.elapsed.as_millis()).unwrap_or(u64::MAX)));
        if self.exit == AgentExit::Running {
            self.exit = AgentExit::Pending(Exit::default());
            self.alarms.set(Alarm::Drain, DRAIN_TIMEOUT);
        }
        self.try_deliver_exit();
    }
}
