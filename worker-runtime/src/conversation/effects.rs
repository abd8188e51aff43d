//! The inputs and outputs of the conversation.

use std::time::Duration;

use serde::Serialize;
use serde_json::value::RawValue;
use subagent_protocol::client::{ExitStatus, TerminalExited};
use subagent_protocol::frame::{Refusal, RuntimeCommand};
use subagent_protocol::record::{AgentStarted, Notification, RecordType};

use crate::acp::lines::AgentLine;
use crate::acp::outgoing::{OutgoingKind, OutgoingLine};
use crate::acp::requests;
use crate::journal::batch::RecordBatch;
use crate::stderr::StderrTail;

/// An event for the conversation.
#[derive(Debug)]
pub(crate) enum ConversationInput<'a> {
    /// The guard is being started.
    Begin,
    /// The guard started the agent.
    AgentStarted(AgentStarted),
    /// The agent could not be started; no process is left.
    SpawnFailed {
        /// The system's error number, or 0 without one.
        errno: i32,
        /// A sentence about the failure.
        message: String,
    },
    /// A line of the agent's output.
    Line(AgentLine<'a>),
    /// The agent closed its output or input, but still runs.
    PipeClosed,
    /// The agent's process ended. All its output was handed in before.
    AgentExited(Exit),
    /// The guard proved that no process is left.
    TreeEnded {
        /// Number of processes that had to be killed.
        killed: u64,
        /// How long that took, in milliseconds.
        millis: u64,
    },
    /// A command of the daemon.
    Command {
        /// The command to answer.
        to: ReplyTo,
        command: RuntimeCommand,
    },
    /// This runtime has to end.
    End {
        /// The reason for the record.
        reason: String,
    },
    /// A client request of the agent was carried out or failed.
    CallDone {
        /// Number of the client request.
        call: u64,
        /// The response to the agent.
        outcome: Result<ClientOperationResult, ClientOperationError>,
    },
    /// The path of a client request was resolved.
    CallFound {
        /// Number of the client request.
        call: u64,
        /// The resolved path, or why there is none.
        found: Result<ResolvedRequest, ClientOperationError>,
    },
    /// The command of a terminal ended.
    TerminalExited(TerminalExited),
    /// A timer has expired.
    Timer(Timer),
    /// The journal became writable, or is no longer writable.
    Storage(Storage),
}

/// How the agent's process ended. Both are `None` if that is unknown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Exit {
    pub(crate) code: Option<i32>,
    pub(crate) signal: Option<i32>,
}

/// The response to a client request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ClientOperationResult {
    /// The text of a file or of the requested lines.
    Content(String),
    /// The file was written.
    Written,
    /// The command of the terminal runs.
    Created {
        /// Id of the terminal.
        terminal: String,
    },
    /// The output of a terminal.
    Output {
        /// The text that was kept.
        text: String,
        /// Whether earlier text was dropped.
        truncated: bool,
        /// The exit status, if the command has ended.
        exit: Option<ExitStatus>,
    },
    /// The command has ended.
    Exited(ExitStatus),
    /// The command was ended, or the terminal released.
    Done,
}

/// A resolved client request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ResolvedRequest {
    /// The path without links.
    pub(crate) path: String,
    /// The file's text, if requested and short.
    pub(crate) text: Option<String>,
}

/// Why a client request was not carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ClientOperationError {
    /// The JSON-RPC or ACP error code.
    pub(crate) code: i32,
    pub(crate) message: String,
}

impl ClientOperationError {
    /// An error that the request did not cause.
    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self { code: requests::INTERNAL_ERROR, message: message.into() }
    }

    /// The request is not allowed.
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self { code: requests::INVALID_PARAMS, message: message.into() }
    }

    /// The resource does not exist.
    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self { code: requests::RESOURCE_NOT_FOUND, message: message.into() }
    }
}

/// Identifies a command of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReplyTo {
    /// Number of the connection.
    pub(crate) connection: u64,
    /// Id of the command.
    pub(crate) id: u64,
}

/// Whether the journal can be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Storage {
    Ok,
    /// The disk is full; records wait.
    Full,
}

/// The timers; each is set at most once at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Timer {
    /// From the start until there is a session.
    Startup,
    /// One request of the handshake.
    Phase,
    /// A pause in the replay of a session.
    Replay,
    /// Setting one option of the session.
    Option,
    /// The duration of a turn.
    Turn,
    /// From a cancel to the end of its turn.
    CancelGrace,
    /// One step of an ordinary end.
    StopGrace,
    /// The wait for space on a full disk.
    StorageFull,
}

/// An action for the driver, after the records are written.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ConversationAction {
    /// Writes to the agent.
    Send(OutgoingLine),
    /// Reports a command as accepted.
    Accept(ReplyTo),
    /// Reports a command as refused. Needs no record: done at once.
    Refuse(ReplyTo, Refusal),
    /// Sets a timer. Done at once.
    SetTimer(Timer, Duration),
    /// Clears a timer. Done at once.
    ClearTimer(Timer),
    /// Drops a prompt that still waits for its record, because its turn is over. Done at once.
    DropPrompt,
    /// Carries out a client request, if it is still wanted then.
    Call(u64),
    /// Drops a client request. An operation that has begun may continue. Done at once.
    DropCall(u64),
    /// Drops all client requests and ends all terminals.
    EndCalls,
    /// Closes the agent's input.
    CloseInput,
    /// Sends SIGTERM to the agent's process group.
    Terminate,
    /// Makes the guard end everything.
    EndTree,
    /// Drops records that cannot be written, so that the end proceeds. Done at once.
    AbandonJournal,
    /// A line for the log.
    Note(String),
    /// Records an invalid line of the agent's output with its stderr.
    Stdout(String),
    Exit,
}

/// Collects the effects of an input.
pub(crate) struct Cx<'a> {
    /// The resulting records, in order.
    pub(crate) batch: &'a mut RecordBatch,
    /// The resulting actions, in order.
    pub(crate) actions: &'a mut Vec<ConversationAction>,
    /// The last lines of the agent's stderr.
    pub(crate) tail: &'a StderrTail,
}

impl Cx<'_> {
    pub(super) fn record<T: Serialize>(&mut self, t: RecordType, turn: Option<u64>, body: &T) {
        self.batch.push_body(t, turn, body);
    }

    /// Keeps a notification, or an unknown request, verbatim.
    pub(super) fn notification(&mut self, turn: Option<u64>, method: &str, params: Option<&RawValue>) {
        let body = Notification { method: method.to_owned(), params: params.map(ToOwned::to_owned) };
        self.record(RecordType::Notification, turn, &body);
    }

    pub(super) fn send(&mut self, kind: OutgoingKind, bytes: Vec<u8>) {
        self.actions.push(ConversationAction::Send(OutgoingLine { kind, bytes }));
    }

    pub(super) fn reply(&mut self, to: ReplyTo, answer: Result<(), Refusal>) {
        self.actions.push(match answer {
            Ok(()) => ConversationAction::Accept(to),
            Err(refusal) => ConversationAction::Refuse(to, refusal),
        });
    }

    pub(super) fn set_timer(&mut self, timer: Timer, millis: u64) {
        self.set_timer_to(timer, Duration::from_millis(millis));
    }

    pub(super) fn set_timer_to(&mut self, timer: Timer, after: Duration) {
        self.actions.push(ConversationAction::SetTimer(timer, after));
    }

    pub(super) fn clear_timer(&mut self, timer: Timer) {
        self.actions.push(ConversationAction::ClearTimer(timer));
    }

    pub(super) fn push(&mut self, action: ConversationAction) {
        self.actions.push(action);
    }
}
