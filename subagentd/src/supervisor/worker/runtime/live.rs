//! A live runtime: its process, its connection, the commands without an answer, and its time
//! limits.

use std::collections::HashMap;
use std::process::Child;
use std::time::Duration;

use subagent_protocol::frame::{RuntimeCommand, RuntimeHello};
use subagent_protocol::ids::RequestId;
use subagent_protocol::{Code, Error, Result};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::reach::Reach;
use crate::supervisor::live_runtimes::LiveToken;
use crate::supervisor::runtimes::link::RuntimeConnection;
use crate::supervisor::runtimes::place::RuntimeExit;
use crate::supervisor::runtimes::process::ExitWatch;

/// Time limit of an answer to a hello or command. Then the runtime counts as unresponsive.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// Delay before commands that a runtime refused for now are sent again.
pub(crate) const SAY_AGAIN: Duration = Duration::from_secs(1);
/// Time from the terminate command to the kill. The runtime's steps and the agent's grace are
/// shorter.
pub(crate) const TERMINATE_TIMEOUT: Duration = Duration::from_secs(15);
/// The same time for an unresponsive runtime.
pub(crate) const TERMINATE_UNRESPONSIVE_TIMEOUT: Duration = Duration::from_secs(3);

/// A runtime that is alive, as far as is known.
pub(crate) struct LiveRuntime {
    pub(crate) link: Option<RuntimeConnection>,
    /// `None` while its process is unknown.
    pub(crate) exit: Option<RuntimeExit>,
    /// Whether its process has ended. The actor handles the end later.
    pub(crate) ended: bool,
    pub(crate) unresponsive: bool,
    pub(crate) child: Option<Child>,
    /// Whether it has answered the hello.
    pub(crate) greeted: bool,
    /// From the runtime's hello.
    pub(crate) version: Option<String>,
    capabilities: Vec<String>,
    /// Commands without an answer, by id.
    unanswered: HashMap<u64, PendingCommand>,
    pub(crate) answer_by: Option<Instant>,
    pub(crate) reconnect_at: Option<Instant>,
    pub(crate) kill_at: Option<Instant>,
    /// Whether the place of a placed one answers.
    pub(crate) reach: Reach,
    _live: LiveToken,
}

/// The subject of a command, for its answer.
pub(crate) enum PendingCommand {
    Prompt { turn: u64 },
    Cancel { turn: u64 },
    Answer { request_id: RequestId },
    Set { request: String },
    CancelChild(oneshot::Sender<Result<()>>),
    Terminate,
    Hibernate,
}

impl LiveRuntime {
    pub(crate) fn new(live: LiveToken, exit: Option<RuntimeExit>, child: Option<Child>) -> Self {
        Self {
            link: None,
            exit,
            ended: false,
            unresponsive: false,
            child,
            greeted: false,
            version: None,
            capabilities: Vec::new(),
            unanswered: HashMap::new(),
            answer_by: None,
            reconnect_at: None,
            kill_at: None,
            reach: Reach::default(),
            _live: live,
        }
    }

    /// Returns whether the runtime has this capability. Unknown before the hello.
    pub(crate) fn can(&self, capability: &str) -> bool {
        self.capabilities.iter().any(|known| known == capability)
    }

    /// Returns whether the prompt of this turn was sent and not answered.
    pub(crate) fn is_asked(&self, turn: u64) -> bool {
        self.unanswered
            .values()
            .any(|asked| matches!(asked, PendingCommand::Prompt { turn: given } if *given == turn))
    }

    /// Returns whether commands reach the runtime now.
    pub(crate) fn listens(&self) -> bool {
        self.link.is_some() && self.greeted && !self.unresponsive
    }

    /// Takes a new connection, or schedules the next attempt. Forgets what was sent over the last
    /// one.
    pub(crate) fn connected(&mut self, link: std::io::Result<RuntimeConnection>, pause: Duration) {
        self.unanswered.clear();
        self.greeted = false;
        let answer_by = Instant::now() + ANSWER_TIMEOUT;
        match link {
            Ok(link) => {
                self.link = Some(link);
                self.reconnect_at = None;
                match &self.exit {
                    // A stream may break again and again before its runtime answers.
                    Some(RuntimeExit::Placed { .. }) => self.answer_by.get_or_insert(answer_by),
                    _ => self.answer_by.insert(answer_by),
                };
            }
            Err(_) => {
                self.reconnect_after(pause);
                self.answer_by.get_or_insert(answer_by);
            }
        }
    }

    /// Takes what the present stream says about the place.
    pub(crate) fn see_stream(&mut self) {
        if let Some(RuntimeExit::Placed { stream, .. }) = &self.exit {
            let state = stream.borrow().clone();
            self.reach.see(&state);
        }
    }

    /// The place has answered: from now on the runtime is silent, and not the way to it.
    pub(crate) fn is_reached(&mut self) {
        if !self.greeted {
            self.answer_by.get_or_insert(Instant::now() + ANSWER_TIMEOUT);
        }
    }

    /// Schedules another connection after the loss of one.
    pub(crate) fn reconnect_after(&mut self, pause: Duration) {
        self.link = None;
        self.see_stream();
        self.reconnect_at = Some(Instant::now() + pause);
    }

    /// Takes what the runtime says of itself. `watch` is for one that is not placed.
    pub(crate) fn hello(&mut self, hello: &RuntimeHello, watch: Option<ExitWatch>) {
        self.greeted = true;
        self.ended = false;
        self.version = Some(hello.version.clone());
        self.capabilities.clone_from(&hello.capabilities);
        match &mut self.exit {
            Some(RuntimeExit::Placed { process, .. }) => *process = Some(hello.process),
            Some(RuntimeExit::Local(_)) => {}
            None => self.exit = watch.map(RuntimeExit::Local),
        }
    }

    /// Dials a broken stream again at once.
    pub(crate) fn dial_now(&mut self) {
        if matches!(self.exit, Some(RuntimeExit::Placed { .. })) && self.reconnect_at.is_some() {
            self.reconnect_at = Some(Instant::now());
        }
    }

    /// Sends a command, and remembers its subject until the answer.
    pub(crate) fn send(&mut self, command: RuntimeCommand, asked: PendingCommand) {
        // Nothing is sent before the hello is answered: the answer reports what the runtime has
        // taken, and a prompt in transit would invalidate it.
        let Some(link) = self.link.as_mut().filter(|_| self.greeted) else {
            self.dial_now();
            return;
        };
        let id = link.send(command);
        self.unanswered.insert(id, asked);
        self.answer_by.get_or_insert(Instant::now() + ANSWER_TIMEOUT);
    }

    /// Returns the subject of the command that was answered.
    pub(crate) fn answered(&mut self, id: u64) -> Option<PendingCommand> {
        let asked = self.unanswered.remove(&id);
        if !self.unanswered.is_empty() {
            self.answer_by = Some(Instant::now() + ANSWER_TIMEOUT);
        }
        asked
    }
}

/// Returns the error for a command that the runtime could not write into its journal.
pub(crate) fn refusal_of_full_disk() -> Error {
    Error::new(Code::StorageFull, "the worker's journal cannot be written: the disk is full").retryable()
}
