//! What is known of a conversation. The other files change it, each in its part.

use serde_json::value::RawValue;
use subagent_protocol::ask::LoginKind;
use subagent_protocol::error::Error;
use subagent_protocol::frame::RuntimePhase;
use subagent_protocol::ids::RequestId;
use subagent_protocol::options::Options;
use subagent_protocol::rate_limit::Reset;
use subagent_protocol::start::{ClientRules, Login, Timeouts};

use super::children::KnownChildSessions;
use super::effects::Storage;
use super::requests::client_request::OpenClientRequests;
use super::requests::question::PendingQuestions;
use super::start::replay::HistoryReplay;
use super::start::settings::SessionSettings;
use super::tool_calls::ToolCalls;
use super::turn_log::TurnLog;
use crate::acp::client_operation::ClientOperationStep;
use crate::acp::requests::SessionContext;
use crate::acp::results::Capabilities;

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
pub(super) struct InitializedAgent {
    pub(super) capabilities: Capabilities,
    /// The login methods by id; `None` is an unknown type.
    pub(super) auth_methods: Vec<(String, Option<LoginKind>)>,
    pub(super) raw: Box<RawValue>,
}

#[derive(Clone)]
pub(super) struct AgentSession {
    pub(super) id: String,
    pub(super) can_close: bool,
}

pub(super) enum ConversationState {
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

/// A method of opening a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Attempt {
    Resume,
    Load,
    New,
}

impl Attempt {
    pub(super) const fn method(self) -> &'static str {
        match self {
            Self::Resume => "session/resume",
            Self::Load => "session/load",
            Self::New => "session/new",
        }
    }
}

/// A pending request for a session.
pub(super) struct Opening {
    pub(super) rpc: u64,
    pub(super) attempt: Attempt,
    /// Further attempts, in order.
    pub(super) rest: Vec<Attempt>,
    /// Why earlier attempts failed.
    pub(super) lost: Vec<String>,
    /// Whether the agent was logged in for this attempt.
    pub(super) logged_in: bool,
}

pub(super) struct Opened {
    pub(super) id: String,
    pub(super) attempt: Attempt,
    pub(super) lost: Vec<String>,
    /// The agent's response that opened the session.
    pub(super) result: Option<Box<RawValue>>,
}

/// A login before the session. The agent requires it first.
pub(super) struct LoggingIn {
    pub(super) rpc: u64,
    /// The session request to repeat after the login.
    pub(super) opening: Opening,
}

/// A login during a turn: the agent rejected the prompt, and the turn waits for the login.
pub(super) struct TurnLogin {
    /// The error of the prompt, from the agent's response.
    pub(super) error: Error,
    pub(super) answer: Option<Box<RawValue>>,
}

/// The prompt that the agent works on.
pub(super) struct OpenTurn {
    pub(super) number: u64,
    /// The id of its `session/prompt` request.
    pub(super) rpc: u64,
    pub(super) cancel: Option<CancelCause>,
    /// The prompt, while options of a new definition are still being set.
    pub(super) held: Option<Vec<u8>>,
    /// Set while a rejected prompt waits for a login; `rpc` is then the id of the login request.
    pub(super) login: Option<TurnLogin>,
}

/// Why the agent was asked to cancel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CancelCause {
    /// A client asked for it.
    Requested,
    /// The turn exceeded its time limit.
    Timeout,
    /// The runtime is ending.
    Stopping,
}

/// The progress of an end.
pub(super) struct ShutdownProgress {
    pub(super) step: ShutdownStep,
    pub(super) reason: String,
    pub(super) session: Option<AgentSession>,
    pub(super) turn: Option<OpenTurn>,
    /// Whether progress records were dropped to get the end written.
    pub(super) shed: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ShutdownStep {
    /// The agent was asked to cancel its turn.
    Canceling,
    /// The agent was asked to close its session.
    Closing { rpc: u64 },
    /// The agent's input is closed.
    InputClosed,
    /// The agent's group got SIGTERM.
    Terminated,
    /// The guard is ending the tree.
    Killing,
    /// The agent has ended; the guard ends remaining processes.
    Exited,
}

pub(crate) struct Conversation {
    pub(super) config: ConversationConfig,
    pub(super) state: ConversationState,
    pub(super) approvals: PendingQuestions,
    pub(super) calls: OpenClientRequests,
    pub(super) tool_calls: ToolCalls,
    pub(super) settings: SessionSettings,
    /// Sessions that the agent runs below its own.
    pub(super) children: KnownChildSessions,
    pub(super) storage: Storage,
    pub(super) agent: Option<InitializedAgent>,
    /// Why there is no session.
    pub(super) failed: Option<Error>,
    /// The id of our next request.
    pub(super) next_rpc: u64,
    pub(super) turns: TurnLog,
    pub(super) replay: HistoryReplay,
    /// The agent's first output that was not a message, for the error of a failed start.
    pub(super) first_noise: Option<String>,
    /// When the rate limit ends that the agent reported last as reached.
    pub(super) limit_resets: Option<Reset>,
}

impl Conversation {
    pub(crate) fn new(config: ConversationConfig) -> Self {
        Self {
            turns: TurnLog::after(config.last_turn),
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
            replay: HistoryReplay::default(),
            first_noise: None,
            limit_resets: None,
        }
    }

    pub(super) fn rpc(&mut self) -> u64 {
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
        self.turns.last
    }

    /// The turn that is open.
    pub(crate) fn open_turn(&self) -> Option<u64> {
        self.turn().map(|turn| turn.number)
    }

    /// Returns the turn to name in a hello. While records wait for disk space, the end of the last
    /// turn may be among them. The turn stays open until readers can see its end.
    pub(crate) fn open_turn_as_written(&self, records_wait: bool) -> Option<u64> {
        self.open_turn().or_else(|| (records_wait && self.turns.last > 0).then_some(self.turns.last))
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

    pub(super) fn is_starting(&self) -> bool {
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

    pub(super) fn turn(&self) -> Option<&OpenTurn> {
        match &self.state {
            ConversationState::Ready { turn, .. } => turn.as_ref(),
            ConversationState::Ending(ending) => ending.turn.as_ref(),
            _ => None,
        }
    }

    pub(super) fn turn_mut(&mut self) -> Option<&mut OpenTurn> {
        match &mut self.state {
            ConversationState::Ready { turn, .. } => turn.as_mut(),
            ConversationState::Ending(ending) => ending.turn.as_mut(),
            _ => None,
        }
    }

    pub(super) fn take_turn(&mut self) -> Option<OpenTurn> {
        match &mut self.state {
            ConversationState::Ready { turn, .. } => turn.take(),
            ConversationState::Ending(ending) => ending.turn.take(),
            _ => None,
        }
    }

    /// Returns the worker's session id once it is known.
    pub(super) fn own_session(&self) -> Option<&str> {
        match &self.state {
            ConversationState::Ready { session, .. } => Some(session.id.as_str()),
            ConversationState::Ending(ending) => ending.session.as_ref().map(|session| session.id.as_str()),
            ConversationState::Replaying { id, .. } => Some(id.as_str()),
            ConversationState::Applying(opened) => Some(opened.id.as_str()),
            ConversationState::Starting
            | ConversationState::Initializing { .. }
            | ConversationState::Opening(_)
            | ConversationState::LoggingIn(_)
            | ConversationState::Ended => None,
        }
    }

    /// Returns the turn that progress belongs to: the open one, or a canceled one
    /// that still produces output.
    pub(super) fn attributed_turn(&self) -> Option<u64> {
        self.open_turn().or(self.turns.late)
    }

    /// Whether nothing besides a turn is open: no question, no client request, no option change.
    pub(super) fn is_quiet(&self) -> bool {
        self.approvals.is_empty() && self.calls.is_quiet() && self.settings.is_quiet()
    }

    /// Returns the id of the pending session request.
    pub(super) fn awaits_session(&self) -> Option<u64> {
        match &self.state {
            ConversationState::Opening(opening) => Some(opening.rpc),
            _ => None,
        }
    }

    /// Returns the id of the pending login request.
    pub(super) fn awaits_login(&self) -> Option<u64> {
        match &self.state {
            ConversationState::LoggingIn(login) => Some(login.rpc),
            _ => None,
        }
    }

    pub(super) fn awaits_close(&self) -> Option<u64> {
        match &self.state {
            ConversationState::Ending(ShutdownProgress { step: ShutdownStep::Closing { rpc }, .. }) => {
                Some(*rpc)
            }
            _ => None,
        }
    }

    /// Returns the next step of this request, if it is still wanted. Call it once, after
    /// its record is written.
    pub(crate) fn take_call(&mut self, call: u64) -> Option<ClientOperationStep> {
        let rules = self.config.client_rules.as_ref();
        self.calls.find(call)?.next_step(rules)
    }
}
