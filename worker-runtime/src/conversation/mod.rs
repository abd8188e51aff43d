//! One worker's conversation with its agent, as a pure state machine: from the start of the agent over the session
//! and its turns to the proof that nothing is left.
//!
//! Must not do I/O, look at a clock or make random numbers: inputs come from the driver, effects go into a batch of
//! records and a list of actions. The driver writes the batch first and carries the actions out afterwards, in order.

mod approvals;
mod asking;
mod calls;
mod children;
mod commands;
mod definition;
mod effects;
mod ending;
pub(crate) mod errors;
mod handshake;
mod inbound;
mod login;
mod settings;
mod tool_calls;
mod turn;

use std::time::Duration;

use serde_json::value::RawValue;
use subagent_protocol::ask::LoginKind;
use subagent_protocol::error::Error;
use subagent_protocol::frame::Phase;
use subagent_protocol::ids::RequestId;
use subagent_protocol::options::Options;
use subagent_protocol::start::{ClientRules, Login, Timeouts};

use crate::acp::requests::Place;
use crate::acp::results::Capabilities;
use approvals::Approvals;
pub(crate) use asking::MOST_SHOWN_BYTES;
use calls::Calls;
use children::Children;
pub(crate) use effects::{Action, Answer, Cx, Exit, Found, Input, Refused, ReplyTo, Storage, Timer};
use ending::Ending;
use handshake::{Opened, Opening};
use login::LoggingIn;
use settings::Settings;
use tool_calls::ToolCalls;
use turn::OpenTurn;

/// How long a full disk may last before what is open is given up.
const STORAGE_PATIENCE: Duration = Duration::from_secs(30);

/// Makes the id of a permission request; `None` when the system has no random bytes.
pub(crate) type MakeRequestId = Box<dyn FnMut() -> Option<RequestId>>;

/// What a conversation is started with.
pub(crate) struct Config {
    /// The session to restore.
    pub(crate) session: Option<String>,
    /// Whether nothing else will do.
    pub(crate) resume_only: bool,
    /// What the last starts came to that failed while they restored it.
    pub(crate) restore_failures: Vec<String>,
    /// Where the agent works, and with what.
    pub(crate) place: Place,
    /// Program and arguments, for errors.
    pub(crate) command: Vec<String>,
    /// Deadlines.
    pub(crate) timeouts: Timeouts,
    /// The last turn that an earlier runtime took.
    pub(crate) last_turn: u64,
    /// What of the session was chosen.
    pub(crate) options: Options,
    /// How somebody logs in.
    pub(crate) login: Login,
    /// What is asked before it is done for the agent.
    pub(crate) client_rules: Option<ClientRules>,
    /// The source of ids.
    pub(crate) make_request_id: MakeRequestId,
}

/// What the agent said of itself in `initialize`.
struct Agent {
    capabilities: Capabilities,
    /// The ways to log in, by their ids; `None` is one of a type that is not known.
    auth_methods: Vec<(String, Option<LoginKind>)>,
    raw: Box<RawValue>,
}

/// The agent's session.
#[derive(Clone)]
struct Session {
    id: String,
    can_close: bool,
}

enum State {
    /// The guard was told to start the agent.
    Starting,
    /// `initialize` is sent.
    Initializing { rpc: u64 },
    /// A session is asked for.
    Opening(Opening),
    /// It is refused until somebody is logged in.
    LoggingIn(LoggingIn),
    /// It was loaded, and its history may still be coming: how often was looked, and how much of it had come then.
    Replaying { id: String, looks: u32, seen: u64, lost: Vec<String>, result: Option<Box<RawValue>> },
    /// There is one, and what was chosen of it is being set.
    Applying(Opened),
    /// There is a session.
    Ready { session: Session, turn: Option<OpenTurn> },
    /// The agent is being ended, or has ended.
    Ending(Ending),
    /// Nothing is left of it.
    Ended,
}

/// The state machine.
pub(crate) struct Conversation {
    config: Config,
    state: State,
    approvals: Approvals,
    calls: Calls,
    tool_calls: ToolCalls,
    settings: Settings,
    /// The sessions that the agent runs below its own.
    children: Children,
    storage: Storage,
    agent: Option<Agent>,
    /// Why the agent could not be brought to a session.
    failed: Option<Error>,
    /// The next id of a request of ours.
    next_rpc: u64,
    /// The last turn that was taken.
    last_turn: u64,
    /// A connection and the last turn whose prompt was refused there for a full disk: a repetition that comes by it gets the
    /// same answer, because the turn ends with the first one.
    refused: Option<(u64, u64)>,
    /// Updates that come late belong to this turn, which was canceled.
    late_turn: Option<u64>,
    /// The agent replays the history of a session that it loaded.
    replaying: bool,
    /// How many updates were of a replay.
    replayed: u64,
    /// The first thing on the agent's output that was no message: for the error of a start that fails.
    first_noise: Option<String>,
}

impl Conversation {
    /// Nothing is started yet.
    pub(crate) fn new(config: Config) -> Self {
        Self {
            last_turn: config.last_turn,
            config,
            state: State::Starting,
            approvals: Approvals::default(),
            calls: Calls::default(),
            tool_calls: ToolCalls::default(),
            settings: Settings::default(),
            children: Children::default(),
            storage: Storage::Ok,
            agent: None,
            failed: None,
            next_rpc: 0,
            refused: None,
            late_turn: None,
            replaying: false,
            replayed: 0,
            first_noise: None,
        }
    }

    /// Takes one input.
    pub(crate) fn handle(&mut self, input: Input<'_>, cx: &mut Cx<'_>) {
        match input {
            Input::Begin => self.begin(cx),
            Input::AgentStarted(started) => self.agent_started(&started, cx),
            Input::SpawnFailed { errno, message } => self.spawn_failed(errno, &message, cx),
            Input::Line(line) => self.line(line, cx),
            Input::PipeClosed => self.pipe_closed(cx),
            Input::AgentExited(exit) => self.agent_exited(exit, cx),
            Input::TreeEnded { killed, millis } => self.tree_ended(killed, millis, cx),
            Input::Command { to, command } => self.command(to, command, cx),
            Input::End { reason } => self.begin_end(&reason, cx),
            Input::CallDone { call, outcome } => self.call_done(call, outcome, cx),
            Input::CallFound { call, found } => self.call_found(call, found, cx),
            Input::TerminalExited(exited) => self.terminal_exited(&exited, cx),
            Input::Timer(timer) => self.timer(timer, cx),
            Input::Storage(storage) => self.storage_changed(storage, cx),
        }
    }

    fn timer(&mut self, timer: Timer, cx: &mut Cx<'_>) {
        match timer {
            Timer::Startup => self.startup_timeout(cx),
            Timer::Phase => self.phase_timeout(cx),
            Timer::Replay => self.replay_paused(cx),
            Timer::Option => self.option_timeout(cx),
            Timer::Turn => self.turn_timeout(cx),
            Timer::CancelGrace => self.cancel_ignored(cx),
            Timer::StopGrace => self.stop_grace_over(cx),
            Timer::StorageFull => self.storage_patience_over(cx),
        }
    }

    fn storage_changed(&mut self, storage: Storage, cx: &mut Cx<'_>) {
        self.storage = storage;
        match storage {
            Storage::Full => cx.set_timer_to(Timer::StorageFull, STORAGE_PATIENCE),
            Storage::Ok => cx.clear_timer(Timer::StorageFull),
        }
    }

    fn rpc(&mut self) -> u64 {
        self.next_rpc += 1;
        self.next_rpc
    }

    /// How far it is.
    pub(crate) fn phase(&self) -> Phase {
        match (&self.failed, &self.state) {
            (Some(error), _) => Phase::Failed { error: error.clone() },
            (
                None,
                State::Starting
                | State::Initializing { .. }
                | State::Opening(_)
                | State::LoggingIn(_)
                | State::Replaying { .. }
                | State::Applying(_),
            ) => Phase::Starting,
            (None, State::Ready { .. }) => Phase::Ready,
            (None, State::Ending(_) | State::Ended) => Phase::Ending,
        }
    }

    /// The last turn that was taken.
    pub(crate) fn last_turn(&self) -> u64 {
        self.last_turn
    }

    /// The turn that is open.
    pub(crate) fn open_turn(&self) -> Option<u64> {
        self.turn().map(|turn| turn.number)
    }

    /// The turn to name in a hello. While records wait for room on the disk, the end of the last turn may be among
    /// them: as long as nobody can read it, the turn is open.
    pub(crate) fn open_turn_as_written(&self, records_wait: bool) -> Option<u64> {
        self.open_turn().or_else(|| (records_wait && self.last_turn > 0).then_some(self.last_turn))
    }

    /// The questions that are open.
    pub(crate) fn open_approvals(&self) -> Vec<RequestId> {
        self.approvals.ids()
    }

    /// Whether it would lose something if it ended now.
    pub(crate) fn has_work(&self) -> bool {
        self.turn().is_some() || !self.approvals.is_empty() || self.is_starting()
    }

    /// Whether it is ending or has ended.
    pub(crate) fn is_ending(&self) -> bool {
        matches!(self.state, State::Ending(_) | State::Ended)
    }

    fn is_starting(&self) -> bool {
        matches!(
            self.state,
            State::Starting
                | State::Initializing { .. }
                | State::Opening(_)
                | State::LoggingIn(_)
                | State::Replaying { .. }
                | State::Applying(_)
        )
    }

    fn turn(&self) -> Option<&OpenTurn> {
        match &self.state {
            State::Ready { turn, .. } => turn.as_ref(),
            State::Ending(ending) => ending.turn.as_ref(),
            _ => None,
        }
    }

    fn turn_mut(&mut self) -> Option<&mut OpenTurn> {
        match &mut self.state {
            State::Ready { turn, .. } => turn.as_mut(),
            State::Ending(ending) => ending.turn.as_mut(),
            _ => None,
        }
    }

    fn take_turn(&mut self) -> Option<OpenTurn> {
        match &mut self.state {
            State::Ready { turn, .. } => turn.take(),
            State::Ending(ending) => ending.turn.take(),
            _ => None,
        }
    }
}

#[cfg(test)]
mod definition_tests;
#[cfg(test)]
mod elicitation_tests;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
