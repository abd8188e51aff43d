//! The pipes of the agent and of the guard.
//!
//! Nothing here blocks: a read or write that would block is repeated when the pipe is ready.

use std::future::Future as _;
use std::io;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use subagent_protocol::record::AgentStarted;
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe::Receiver;

use super::agent_process::AgentExit;
use super::alarms::Alarm;
use super::state::Driver;
use crate::acp::lines::AgentLine;
use crate::acp::outgoing::OutgoingKind;
use crate::conversation::{ConversationInput, Cx, Exit};
use crate::guard::{self, GuardStatus};

/// Maximum bytes per read from the agent, and per write to the journal.
const OUTPUT_BYTES: usize = 64 * 1024;
/// A read of at least this many bytes is part of a burst. A burst ends when none follows
/// for the pause below.
const BURST_BYTES: usize = 16 * 1024;
const BURST_PAUSE: Duration = Duration::from_secs(1);
const ERROR_BYTES: usize = 4 * 1024;
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

/// Reads what is available, and closes a pipe that has ended. The buffer lives only while its content is processed: an
/// idle runtime holds none.
///
/// Polls instead of trying. A read that does not fill the buffer then counts as the last one. This
/// saves a read from an empty pipe.
fn read(pipe: Option<&mut Option<Receiver>>, capacity: usize) -> AgentOutputChunk {
    let Some(place) = pipe else { return AgentOutputChunk::NotNow };
    let Some(pipe) = place else { return AgentOutputChunk::NotNow };
    let mut bytes = Vec::with_capacity(capacity);
    let polled = pin!(pipe.read_buf(&mut bytes)).poll(&mut Context::from_waker(Waker::noop()));
    match polled {
        Poll::Pending => AgentOutputChunk::NotNow,
        Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::Interrupted => AgentOutputChunk::NotNow,
        Poll::Ready(Ok(1..)) => AgentOutputChunk::Bytes(bytes),
        Poll::Ready(Ok(0) | Err(_)) => {
            *place = None;
            AgentOutputChunk::End
        }
    }
}

pub(super) fn read_output(driver: &mut Driver) {
    match read(driver.agent.io.as_mut().map(|agent| &mut agent.output), OUTPUT_BYTES) {
        AgentOutputChunk::NotNow => {}
        AgentOutputChunk::Bytes(bytes) => {
            take_output(driver, Some(&bytes));
            if bytes.len() >= BURST_BYTES {
                driver.alarms.set(Alarm::Trim, BURST_PAUSE);
            }
        }
        AgentOutputChunk::End => {
            take_output(driver, None);
            pipe_ended(driver);
        }
    }
}

/// Handles one chunk; all its lines go into one write to the journal.
fn take_output(driver: &mut Driver, bytes: Option<&[u8]>) {
    let mut actions = Vec::new();
    driver.records.journal.batch.set_time();
    let (conversation, batch, tail) =
        (&mut driver.conversation, &mut driver.records.journal.batch, &driver.agent.tail);
    let on_line = |line: AgentLine<'_>| {
        conversation.handle(ConversationInput::Line(line), &mut Cx { batch, actions: &mut actions, tail });
    };
    match bytes {
        Some(bytes) => driver.agent.splitter.feed(bytes, on_line),
        None => driver.agent.splitter.finish(on_line),
    }
    driver.settle(actions);
}

pub(super) fn read_errors(driver: &mut Driver) {
    match read(driver.agent.io.as_mut().map(|agent| &mut agent.errors), ERROR_BYTES) {
        AgentOutputChunk::NotNow => {}
        AgentOutputChunk::Bytes(bytes) => driver.take_errors(&bytes),
        AgentOutputChunk::End => {
            try_deliver_exit(driver);
        }
    }
}

pub(super) fn write_input(driver: &mut Driver) {
    while let Some(input) = driver.agent.io.as_ref().and_then(|agent| agent.input.as_ref()) {
        let Some(bytes) = driver.agent.outgoing.front() else {
            if driver.agent.closes_input {
                driver.agent.drop_input();
            }
            return;
        };
        match input.try_write(bytes) {
            Ok(length) => match driver.agent.outgoing.wrote(length) {
                Some(OutgoingKind::Prompt) => subagent_failpoint::hit("dispatch.after_write"),
                Some(OutgoingKind::Answer) => subagent_failpoint::hit("answer.after_write"),
                Some(OutgoingKind::Plain | OutgoingKind::Result | OutgoingKind::Automatic) | None => {}
            },
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => {
                driver.agent.drop_input();
                pipe_ended(driver);
                return;
            }
        }
    }
    // The agent cannot be written to.
    driver.agent.outgoing.clear();
}

/// Closes the agent's input after the queued lines.
pub(super) fn close_input(driver: &mut Driver) {
    driver.agent.closes_input = true;
    write_input(driver);
}

/// The agent no longer reads or writes. If it has ended, the guard will report that.
fn pipe_ended(driver: &mut Driver) {
    if driver.agent.exit == AgentExit::Running {
        driver.alarms.set(Alarm::PipeClosed, DRAIN_TIMEOUT);
    }
    try_deliver_exit(driver);
}

pub(super) fn read_status(driver: &mut Driver) {
    match read(driver.agent.io.as_mut().map(|agent| &mut agent.status), ERROR_BYTES) {
        AgentOutputChunk::NotNow => {}
        AgentOutputChunk::Bytes(bytes) => {
            for status in driver.agent.status_lines.read::<GuardStatus>(&bytes) {
                guard_says(driver, status);
            }
        }
        AgentOutputChunk::End => {
            reap(driver);
            if driver.agent.clean.is_none() && !driver.done {
                driver.log.note("the guard died; its processes are ended by the runtime");
                rescue(driver);
            }
        }
    }
}

fn guard_says(driver: &mut Driver, status: GuardStatus) {
    match status {
        GuardStatus::Spawned { pid } => {
            if let Some(guard) = driver.agent.guard {
                driver.apply(ConversationInput::AgentStarted(AgentStarted { agent_pid: pid, guard }));
            }
        }
        GuardStatus::SpawnFailed { errno, message } => {
            driver.agent.clean = Some((0, 0));
            driver.agent.exit = AgentExit::Delivered;
            driver.apply(ConversationInput::SpawnFailed { errno, message });
        }
        GuardStatus::Exited { code, signal, .. } => {
            driver.agent.exit = AgentExit::Pending(Exit { code, signal });
            driver.alarms.set(Alarm::Drain, DRAIN_TIMEOUT);
            try_deliver_exit(driver);
        }
        GuardStatus::Ending => subagent_failpoint::hit("end.before_clean"),
        GuardStatus::Incomplete { pids } => {
            driver.log.note(&format!("these processes could not be ended yet: {pids:?}"));
        }
        GuardStatus::Clean { killed, millis } => {
            subagent_failpoint::hit("end.after_clean");
            driver.agent.clean = Some((u64::from(killed), millis));
            try_deliver_exit(driver);
        }
        GuardStatus::Unknown => {}
    }
}

/// Reports the agent's exit to the conversation, once all its output was handed in.
pub(super) fn try_deliver_exit(driver: &mut Driver) {
    if driver.agent.may_deliver_exit() {
        deliver_exit(driver);
    }
}

pub(super) fn deliver_exit(driver: &mut Driver) {
    if let AgentExit::Pending(exit) = driver.agent.exit {
        driver.agent.exit = AgentExit::Delivered;
        driver.alarms.clear(Alarm::Drain);
        driver.apply(ConversationInput::AgentExited(exit));
    }
    // The proof covers everything that the agent has started, also through this runtime.
    if let Some((killed, millis)) = driver.agent.clean.filter(|_| driver.client.executor.all_ended()) {
        driver.apply(ConversationInput::TreeEnded { killed, millis });
    }
}

/// Reaps the guard, if it has ended.
pub(super) fn reap(driver: &mut Driver) {
    if let Some(agent) = &mut driver.agent.io {
        // The exit status adds nothing to the guard's last line.
        let _ = agent.guard.try_wait();
    }
    driver.client.executor.reap();
    try_deliver_exit(driver);
}

/// Ends the processes in place of a dead guard.
pub(super) fn rescue(driver: &mut Driver) {
    let report = guard::end_descendants(RESCUE_ROUND, &[]);
    if !report.clean {
        driver.log.note(&format!("these processes could not be ended yet: {:?}", report.remaining));
        driver.alarms.set(Alarm::Rescue, RESCUE_PAUSE);
        return;
    }
    driver.agent.clean =
        Some((u64::from(report.killed), u64::try_from(report.elapsed.as_millis()).unwrap_or(u64::MAX)));
    if driver.agent.exit == AgentExit::Running {
        driver.agent.exit = AgentExit::Pending(Exit::default());
        driver.alarms.set(Alarm::Drain, DRAIN_TIMEOUT);
    }
    try_deliver_exit(driver);
}
