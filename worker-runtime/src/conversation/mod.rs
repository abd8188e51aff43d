//! One worker's conversation with its agent as a pure state machine. It begins with the agent's
//! start, has a session with turns, and ends with the proof that no process is left. Does no I/O,
//! reads no clock and generates no random numbers.

// Inputs come from the driver; effects go into a batch of records and a list of actions. The
// driver writes the batch first and then carries out the actions in order.

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
mod rate_limits;
mod settings;
mod tool_calls;
mod turn;

use std::time::Duration;

use serde_json::value::RawValue;
use subagent_protocol::ask::LoginKind;
use subagent_protocol::error::Error;
use subagent_protocol::frame::RuntimePhase;
use subagent_protocol::ids::RequestId;
use subagent_protocol::options::Options;
use subagent_protocol::rate_limit::Reset;
use subagent_protocol::start::{ClientRules, Login, Timeouts};

use crate::acp::requests::SessionContext;
use crate::acp::results::Capabilities;
use approvals::PendingQuestions;
pub(crate) use asking::MAX_SHOWN_BYTES;
use calls::OpenClientRequests;
use children::KnownChildSessions;
pub(crate) use effects::{
    ClientOperationError, ClientOperationResult, ConversationAction, ConversationInput, Cx, Exit, ReplyTo,
    ResolvedRequest, Storage, Timer,
};
use ending::ShutdownProgress;
use handshake::{Opened, Opening};
use login::LoggingIn;
use settings::SessionSettings;
use tool_calls::ToolCalls;
use turn::OpenTurn;

/// How long a full disk may last before open work is given up.
const STORAGE_TIMEOUT: Duration = Duration::from_secs(30);

/// Generates request ids; returns `None` if the system has no random bytes.
pub(crate) type MakeRequestId = Box<dyn FnMut() -> Option<RequestId>>;

/// The configuration of a conversation.
pub(crate) struct ConversationConfig {
    /// The session to restore; `None` starts a new one.
    pub(crate) session: Option<String>,
    /// Whether a new session is not acceptable.
    pub(crate) resume_only: bool,
    /// Outcomes of earlier starts that failed while restoring the session.
    pub(crate) restore_failures: Vec<String>,
    /// The session's folders, servers and instructions.
    pub(crate) context: SessionContext,
    /// Program and arguments, for errors.
    pub(crate) command: Vec<String>,
    pub(crate) timeouts: Timeouts,
    /// The last turn that an earlier runtime accepted.
    pub(crate) last_turn: u64,
    /// The session options that were chosen.
    pub(crate) options: Options,
    /// How the user logs in.
    pub(crate) login: Login,
    /// Client requests that need a permission.
    pub(crate) client_rules: Option<ClientRules>,
    pub(crate) make_request_id: MakeRequestId,
}

/// What the agent reported in `initialize`.
struct InitializedAgent {
    capabilities: Capabilities,
    /// The login methods by id; `None` is an unknown type.
    auth_methods: Vec<(String, Option<LoginKind>)>,
    raw: Box<RawValue>,
}

#[derive(Clone)]
struct AgentSession {
    id: String,
    can_close: bool,
}

enum ConversationState {
    /// The guard is starting the agent.
    Starting,
    /// `initialize` waits for its response.
    Initializing { rpc: u64 },
    /// A session request waits for its response.
    Opening(Opening),
    /// The session request is rejected until the user is logged in.
    LoggingIn(LoggingIn),
    /// The session was loaded and its history may still arrive. `looks` counts the checks, `seen`
    /// the updates at the last one.
    Replaying { id: String, looks: u32, seen: u64, lost: Vec<String>, result: Option<Box<RawValue>> },
    /// The session exists, and its options are being set.
    Applying(Opened),
    /// The session is ready for turns.
    Ready { session: AgentSession, turn: Option<OpenTurn> },
    /// The agent is ending or has ended.
    Ending(ShutdownProgress),
    /// No process of the agent is left.
    Ended,
}

pub(crate) struct Conversation {
    config: ConversationConfig,
    state: ConversationState,
    approvals: PendingQuestions,
    calls: OpenClientRequests,
    tool_calls: ToolCalls,
    settings: SessionSettings,
    /// Sessions that the agent runs below its own.
    children: KnownChildSessions,
    storage: Storage,
    agent: Option<InitializedAgent>,
    /// Why there is no session.
    failed: Option<Error>,
    /// The id of our next request.
    next_rpc: u64,
    /// The last turn that was accepted.
    last_turn: u64,
    /// A connection, and the last turn whose prompt was refused there on a full disk. A repetition
    /// on the same connection gets the same answer, because the first one ends the turn.
    refused: Option<(u64, u64)>,
    /// The canceled turn that late updates belong to.
    late_turn: Option<u64>,
    /// Whether the agent is replaying the history of a loaded session.
    replaying: bool,
    /// Number of updates that belonged to a replay.
    replayed: u64,
    /// The agent's first output that was not a message, for the error of a failed start.
    first_noise: Option<String>,
    /// When the rate limit ends that the agent reported last as reached.
    limit_resets: Option<Reset>,
}

impl Conversation {
    pub(crate) fn new(config: ConversationConfig) -> Self {
        Self {
            last_turn: config.last_turn,
            config,
            state: ConversationState::Starting,
            approvals: PendingQuestions::default(),
            calls: OpenClientRequests::default(),
            tool_calls: ToolCalls::default(),
            settings: SessionSettings::default(),
            children: KnownChildSessions::default(),
            storage: Storage::Ok,
            agent: None,
            failed: None,
            next_rpc: 0,
            refused: None,
            late_turn: None,
            replaying: false,
            replayed: 0,
            first_noise: None,
            limit_resets: None,
        }
    }

    /// Handles one input; effects go to `cx`.
    pub(crate) fn handle(&mut self, input: ConversationInput<'_>, cx: &mut Cx<'_>) {
        match input {
            ConversationInput::Begin => self.begin(cx),
            ConversationInput::AgentStarted(started) => self.agent_started(&started, cx),
            ConversationInput::SpawnFailed { errno, message } => self.spawn_failed(errno, &message, cx),
            ConversationInput::Line(line) => self.line(line, cx),
            ConversationInput::PipeClosed => self.pipe_closed(cx),
            ConversationInput::AgentExited(exit) => self.agent_exited(exit, cx),
            ConversationInput::TreeEnded { killed, millis } => self.tree_ended(killed, millis, cx),
            ConversationInput::Command { to, command } => self.command(to, command, cx),
            ConversationInput::End { reason } => self.begin_end(&reason, cx),
            ConversationInput::CallDone { call, outcome } => self.call_done(call, outcome, cx),
            ConversationInput::CallFound { call, found } => self.call_found(call, found, cx),
            ConversationInput::TerminalExited(exited) => self.terminal_exited(&exited, cx),
            ConversationInput::Timer(timer) => self.timer(timer, cx),
            ConversationInput::Storage(storage) => self.storage_changed(storage, cx),
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
            Storage::Full => cx.set_timer_to(Timer::StorageFull, STORAGE_TIMEOUT),
            Storage::Ok => cx.clear_timer(Timer::StorageFull),
        }
    }

    fn rpc(&mut self) -> u64 {
        self.next_rpc += 1;
        self.next_rpc
    }

    pub(crate) fn phase(&self) -> RuntimePhase {
        match (&self.failed, &self.state) {
            (Some(error), _) => RuntimePhase::Failed { error: error.clone() },
            (
                None,
                ConversationState::Starting
                | ConversationState::Initializing { .. }
                | ConversationState::Opening(_)
                | ConversationState::LoggingIn(_)
                | ConversationState::Replaying { .. }
                | ConversationState::Applying(_),
            ) => RuntimePhase::Starting,
            (None, ConversationState::Ready { .. }) => RuntimePhase::Ready,
            (None, ConversationState::Ending(_) | ConversationState::Ended) => RuntimePhase::Ending,
        }
    }

    /// The last turn that was accepted.
    pub(crate) fn last_turn(&self) -> u64 {
        self.last_turn
    }

    /// The turn that is open.
    pub(crate) fn open_turn(&self) -> Option<u64> {
        self.turn().map(|turn| turn.number)
    }

    /// Returns the turn to name in a hello. While records wait for disk space, the end of the last
    /// turn may be among them. The turn stays open until readers can see its end.
    pub(crate) fn open_turn_as_written(&self, records_wait: bool) -> Option<u64> {
        self.open_turn().or_else(|| (records_wait && self.last_turn > 0).then_some(self.last_turn))
    }

    /// Returns the ids of the open requests.
    pub(crate) fn open_approvals(&self) -> Vec<RequestId> {
        self.approvals.ids()
    }

    /// Whether ending now would lose something.
    pub(crate) fn has_work(&self) -> bool {
        self.turn().is_some() || !self.approvals.is_empty() || self.is_starting()
    }

    /// Whether the conversation is ending or has ended.
    pub(crate) fn is_ending(&self) -> bool {
        matches!(self.state, ConversationState::Ending(_) | ConversationState::Ended)
    }

    fn is_starting(&self) -> bool {
        matches!(
            self.state,
            ConversationState::Starting
                | ConversationState::Initializing { .. }
                | ConversationState::Opening(_)
                | ConversationState::LoggingIn(_)
                | ConversationState::Replaying { .. }
                | ConversationState::Applying(_)
        )
    }

    fn turn(&self) -> Option<&OpenTurn> {
        match &self.state {
            ConversationState::Ready { turn, .. } => turn.as_ref(),
            ConversationState::Ending(ending) => ending.turn.as_ref(),
            _ => None,
        }
    }

    fn turn_mut(&mut self) -> Option<&mut OpenTurn> {
        match &mut self.state {
            ConversationState::Ready { turn, .. } => turn.as_mut(),
            ConversationState::Ending(ending) => ending.turn.as_mut(),
            _ => None,
        }
    }

    fn take_turn(&mut self) -> Option<OpenTurn> {
        match &mut self.state {
            ConversationState::Ready { turn, .. } => turn.take(),
            ConversationState::Ending(ending) => ending.turn.take(),
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
