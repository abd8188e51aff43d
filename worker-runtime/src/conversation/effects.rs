//! What goes into the conversation and what comes out of it.

use std::time::Duration;

use serde::Serialize;
use subagent_protocol::client::{ExitStatus, TerminalExited};
use subagent_protocol::frame::{Command, Refusal};
use subagent_protocol::record::{AgentStarted, RecordType};

use crate::acp::lines::Line;
use crate::acp::outgoing::{Kind, OutgoingLine};
use crate::journal::batch::Batch;
use crate::stderr::Tail;

/// What happened.
#[derive(Debug)]
pub(crate) enum Input<'a> {
    /// The guard is being started.
    Begin,
    /// The guard started the agent.
    AgentStarted(AgentStarted),
    /// The agent could not be started; nothing is left.
    SpawnFailed {
        /// The system's error number, 0 for none.
        errno: i32,
        /// What could not be done.
        message: String,
    },
    /// A line of the agent's output.
    Line(Line<'a>),
    /// The agent closed its output or its input and is still there.
    PipeClosed,
    /// The agent's process ended; all that it had written was handed in before.
    AgentExited(Exit),
    /// The guard proved that nothing is left.
    TreeEnded {
        /// Processes that had to be killed.
        killed: u64,
        /// How long that took, in milliseconds.
        millis: u64,
    },
    /// The daemon tells us to do something.
    Command {
        /// Whom to answer.
        to: ReplyTo,
        /// What to do.
        command: Command,
    },
    /// This runtime shall end.
    End {
        /// Why.
        reason: String,
    },
    /// Something that the agent asked for was done, or could not be.
    CallDone {
        /// Which request.
        call: u64,
        /// What came of it.
        outcome: Result<Answer, Refused>,
    },
    /// It was found out where something leads that the agent asked for.
    CallFound {
        /// Which request.
        call: u64,
        /// Where, or why it leads nowhere.
        found: Result<Found, Refused>,
    },
    /// The command of a terminal ended.
    TerminalExited(TerminalExited),
    /// A timer that was set went off.
    Timer(Timer),
    /// The journal cannot be written any more, or again.
    Storage(Storage),
}

/// How the agent's process ended; neither when that could not be learnt.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Exit {
    /// Its exit code.
    pub(crate) code: Option<i32>,
    /// The signal that ended it.
    pub(crate) signal: Option<i32>,
}

/// What is answered to a request of the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    /// What the file holds, or the lines of it that were asked for.
    Content(String),
    /// The file was written.
    Written,
    /// The terminal's command runs.
    Created {
        /// Its id.
        terminal: String,
    },
    /// What it printed.
    Output {
        /// The text that was kept.
        text: String,
        /// Whether something before that was not.
        truncated: bool,
        /// How it ended, if it has.
        exit: Option<ExitStatus>,
    },
    /// The command ended.
    Exited(ExitStatus),
    /// The command was told to end, or the terminal is forgotten.
    Done,
}

/// Where a request leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    /// The path without links.
    pub(crate) path: String,
    /// What the file holds, if that was wanted and is little.
    pub(crate) text: Option<String>,
}

/// Why a request of the agent was not carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refused {
    /// JSON-RPC's or ACP's code.
    pub(crate) code: i32,
    /// A sentence.
    pub(crate) message: String,
}

/// A command of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReplyTo {
    /// The connection.
    pub(crate) connection: u64,
    /// The id of the command.
    pub(crate) id: u64,
}

/// Whether the journal can be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Storage {
    /// It can.
    Ok,
    /// It cannot; records wait.
    Full,
}

/// The timers; each is set at most once at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Timer {
    /// From the start to a session.
    Startup,
    /// A request on the way there.
    Phase,
    /// A pause in the replay of a session.
    Replay,
    /// One option of the session.
    Option,
    /// A turn.
    Turn,
    /// From a cancel to the end of its turn.
    CancelGrace,
    /// A step of an ordinary end.
    StopGrace,
    /// A full disk.
    StorageFull,
}

/// What the driver does after the records are written.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Writes to the agent.
    Send(OutgoingLine),
    /// Answers a command that was taken.
    Accept(ReplyTo),
    /// Answers a command that was not taken. Needs no record: done at once.
    Refuse(ReplyTo, Refusal),
    /// Sets a timer. Done at once.
    SetTimer(Timer, Duration),
    /// Forgets a timer. Done at once.
    ClearTimer(Timer),
    /// Forgets a prompt that still waits for its record: its turn is over. Done at once.
    DropPrompt,
    /// Carries out what the agent asks for, if it is still wanted then.
    Call(u64),
    /// Forgets a request of the agent. What of it had begun may go on. Done at once.
    DropCall(u64),
    /// Forgets all of them and ends all terminals.
    EndCalls,
    /// Closes the agent's input.
    CloseInput,
    /// Sends SIGTERM to the agent's group.
    Terminate,
    /// Lets the guard end everything.
    EndTree,
    /// Gives up on records that cannot be written, so that the end goes on. Done at once.
    AbandonJournal,
    /// A line for the log.
    Note(String),
    /// Keeps a line of the agent's output that is no message beside what it writes to its standard error.
    Stdout(String),
    /// This runtime ends.
    Exit,
}

/// Where effects go.
pub(crate) struct Cx<'a> {
    /// Records, in order.
    pub(crate) batch: &'a mut Batch,
    /// Actions, in order.
    pub(crate) actions: &'a mut Vec<Action>,
    /// The agent's last words.
    pub(crate) tail: &'a Tail,
}

impl Cx<'_> {
    pub(super) fn record<T: Serialize>(&mut self, t: RecordType, turn: Option<u64>, body: &T) {
        self.batch.push_body(t, turn, body);
    }

    pub(super) fn send(&mut self, kind: Kind, bytes: Vec<u8>) {
        self.actions.push(Action::Send(OutgoingLine { kind, bytes }));
    }

    pub(super) fn reply(&mut self, to: ReplyTo, answer: Result<(), Refusal>) {
        self.actions.push(match answer {
            Ok(()) => Action::Accept(to),
            Err(refusal) => Action::Refuse(to, refusal),
        });
    }

    pub(super) fn set_timer(&mut self, timer: Timer, millis: u64) {
        self.set_timer_to(timer, Duration::from_millis(millis));
    }

    pub(super) fn set_timer_to(&mut self, timer: Timer, after: Duration) {
        self.actions.push(Action::SetTimer(timer, after));
    }

    pub(super) fn clear_timer(&mut self, timer: Timer) {
        self.actions.push(Action::ClearTimer(timer));
    }

    pub(super) fn push(&mut self, action: Action) {
        self.actions.push(action);
    }
}
