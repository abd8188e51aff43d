//! One question to an agent as a pure state machine, from the start to the proof that no process is
//! left. Does no I/O and reads no clock: each input carries the time.

use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use subagent_protocol::ask::{AgentQueryResult, AgentQuestion, Deadlines, LoginKind, LoginMethod, PhaseTime};
use subagent_protocol::details::{AUTH_STATUS_UPDATE, AuthStatus};
use subagent_protocol::lenient::{self, Lenient, Offered};
use subagent_protocol::record::NoiseReason;
use subagent_protocol::{Code, Error};

use super::methods::unsupported;
use super::requests as ask_requests;
use crate::acp::lines::AgentLine;
use crate::acp::message::{self, RpcMessage, RpcOutcome};
use crate::acp::outgoing::{OutgoingKind, OutgoingLine};
use crate::acp::requests::SessionContext;
use crate::acp::{noise, requests, results};
use crate::conversation::{Exit, errors};
use crate::shorten;

/// Maximum number of pages requested, and of sessions kept.
const MAX_PAGES: usize = 100;
const MAX_SESSIONS: usize = 10_000;
/// Maximum size of the kept session descriptions, in bytes.
const MAX_BYTES: usize = 16 * 1024 * 1024;

/// How long the guard may take to end everything. It kills repeatedly and
/// normally needs an instant.
const KILL_TIMEOUT: Duration = Duration::from_secs(10);

/// An event from the driver.
#[derive(Debug)]
pub(super) enum AgentQueryInput<'a> {
    /// The guard started the agent.
    Spawned,
    /// The agent could not be started; no process is left.
    SpawnFailed { errno: i32, message: String },
    /// A line of the agent's output.
    Line(AgentLine<'a>),
    /// The agent closed its output or input, but still runs.
    PipeClosed,
    /// The agent's process ended. All its output was handed in before.
    AgentExited(Exit),
    /// No process is left.
    TreeEnded,
    /// The deadline has passed.
    Deadline,
    /// The caller is gone.
    HungUp,
}

/// An action for the driver; actions run in order.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum AgentQueryAction {
    /// Writes to the agent.
    Send(OutgoingLine),
    /// Sets a deadline in place of the former one.
    Deadline(Duration),
    /// Closes the agent's input after the queued lines.
    CloseInput,
    /// Sends SIGTERM to the agent's process group.
    Terminate,
    /// Records an invalid line of the agent's output with its stderr.
    Stdout(String),
    /// Makes the guard end everything.
    EndTree,
    /// Writes the answer and ends.
    Finish,
}

/// The kind of the last request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AgentQueryStep {
    Initialize,
    NewSession,
    Authenticate,
    Logout,
    ListSessions { pages: usize },
    DeleteSession,
}

impl AgentQueryStep {
    const fn method(self) -> &'static str {
        match self {
            Self::Initialize => "initialize",
            Self::NewSession => "session/new",
            Self::Authenticate => "authenticate",
            Self::Logout => "logout",
            Self::ListSessions { .. } => "session/list",
            Self::DeleteSession => "session/delete",
        }
    }

    const fn phase(self) -> &'static str {
        match self {
            Self::Initialize => "initialize",
            Self::NewSession => "session",
            Self::Authenticate => "authenticate",
            Self::Logout => "logout",
            Self::ListSessions { .. } => "list",
            Self::DeleteSession => "delete",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AgentQueryState {
    /// The guard is starting the agent.
    Spawning,
    /// A request waits for its response.
    Asking { rpc: u64, step: AgentQueryStep },
    /// The session is being closed.
    Closing { rpc: u64 },
    /// The agent's input is closed.
    InputClosed,
    /// The agent's group got SIGTERM.
    Terminated,
    /// The guard ends the tree, on request or because the agent ended.
    Killing,
    /// No process is left.
    Ended,
}

pub(super) struct AgentQueryMachine {
    question: AgentQuestion,
    deadlines: Deadlines,
    /// The session's working directory.
    cwd: String,
    /// Program and arguments, for errors.
    command: Vec<String>,
    state: AgentQueryState,
    pub(super) answer: AgentQueryResult,
    capabilities: AskedCapabilities,
    next_rpc: u64,
    /// Start of the current phase, in milliseconds.
    since: u64,
    cursor: Option<String>,
    kept: usize,
    first_noise: Option<String>,
}

/// The context of one input.
pub(super) struct QueryContext<'a> {
    /// Milliseconds since the start.
    pub(super) now: u64,
    /// Returns the end of the agent's stderr.
    pub(super) tail: &'a dyn Fn() -> String,
    /// The resulting actions, in order.
    pub(super) actions: Vec<AgentQueryAction>,
}

impl QueryContext<'_> {
    fn push(&mut self, action: AgentQueryAction) {
        self.actions.push(action);
    }

    fn send(&mut self, kind: OutgoingKind, bytes: Vec<u8>) {
        self.push(AgentQueryAction::Send(OutgoingLine { kind, bytes }));
    }

    fn deadline(&mut self, millis: u64) {
        self.push(AgentQueryAction::Deadline(Duration::from_millis(millis)));
    }
}

impl AgentQueryMachine {
    /// A machine before the agent's start.
    pub(super) fn new(
        question: AgentQuestion,
        deadlines: Deadlines,
        cwd: String,
        command: Vec<String>,
    ) -> Self {
        Self {
            question,
            deadlines,
            cwd,
            command,
            state: AgentQueryState::Spawning,
            answer: AgentQueryResult::default(),
            capabilities: AskedCapabilities::default(),
            next_rpc: 0,
            since: 0,
            cursor: None,
            kept: 0,
            first_noise: None,
        }
    }

    /// The deadline of the start.
    pub(super) fn first_deadline(&self) -> Duration {
        Duration::from_millis(self.deadlines.initialize_ms)
    }

    /// Whether the agent may ask the user to do something, so that its stderr must be shown.
    pub(super) fn shows_stderr(&self) -> bool {
        matches!(self.question, AgentQuestion::Login { .. } | AgentQuestion::Logout)
    }

    pub(super) fn into_answer(self) -> AgentQueryResult {
        self.answer
    }

    /// Handles one input and adds the resulting actions.
    pub(super) fn handle(&mut self, input: AgentQueryInput<'_>, cx: &mut QueryContext<'_>) {
        match input {
            AgentQueryInput::Spawned => {
                self.phase_over("spawn", cx.now);
                if self.state == AgentQueryState::Spawning {
                    self.ask(AgentQueryStep::Initialize, cx);
                }
            }
            AgentQueryInput::SpawnFailed { errno, message } => {
                self.fail(errors::spawn_failed(&self.command, errno, &message), cx);
                self.state = AgentQueryState::Ended;
                cx.push(AgentQueryAction::Finish);
            }
            AgentQueryInput::Line(line) => self.line(line, cx),
            AgentQueryInput::PipeClosed => match self.state {
                AgentQueryState::Spawning | AgentQueryState::Asking { .. } => {
                    self.give_up(errors::pipe_closed_at_start(), cx)
                }
                AgentQueryState::Closing { .. } => self.close_input(cx),
                _ => {}
            },
            AgentQueryInput::AgentExited(exit) => {
                if matches!(self.state, AgentQueryState::Spawning | AgentQueryState::Asking { .. }) {
                    self.fail(errors::exited_at_start(&self.command, exit), cx);
                    self.since = cx.now;
                }
                if self.state != AgentQueryState::Ended {
                    self.killing(cx);
                }
            }
            AgentQueryInput::TreeEnded => {
                if self.state != AgentQueryState::Ended {
                    if matches!(self.state, AgentQueryState::Spawning | AgentQueryState::Asking { .. }) {
                        self.fail(errors::exited_at_start(&self.command, Exit::default()), cx);
                    }
                    self.phase_over("end", cx.now);
                    self.state = AgentQueryState::Ended;
                    cx.push(AgentQueryAction::Finish);
                }
            }
            AgentQueryInput::Deadline => self.too_late(cx),
            AgentQueryInput::HungUp => match self.state {
                AgentQueryState::Spawning
                | AgentQueryState::Asking { .. }
                | AgentQueryState::Closing { .. } => self.close_input(cx),
                _ => {}
            },
        }
    }

    /// A deadline has passed: takes the next step.
    fn too_late(&mut self, cx: &mut QueryContext<'_>) {
        match self.state {
            AgentQueryState::Spawning => {
                self.no_answer("initialize", "spawn", self.deadlines.initialize_ms, cx)
            }
            AgentQueryState::Asking { step, .. } => {
                let millis = match step {
                    AgentQueryStep::Initialize => self.deadlines.initialize_ms,
                    _ => self.deadlines.request_ms,
                };
                self.no_answer(step.method(), step.phase(), millis, cx);
            }
            AgentQueryState::Closing { .. } => self.close_input(cx),
            AgentQueryState::InputClosed => self.terminate(cx),
            AgentQueryState::Terminated => {
                self.killing(cx);
                cx.push(AgentQueryAction::EndTree);
            }
            // The guard keeps trying after this process ends.
            AgentQueryState::Killing => {
                self.fail(errors::not_ended(KILL_TIMEOUT.as_secs()), cx);
                self.phase_over("end", cx.now);
                self.state = AgentQueryState::Ended;
                cx.push(AgentQueryAction::Finish);
            }
            AgentQueryState::Ended => {}
        }
    }

    fn no_answer(&mut self, method: &str, phase: &str, millis: u64, cx: &mut QueryContext<'_>) {
        let mut error = errors::no_answer(&self.command, method, phase, millis as f64 / 1000.0);
        if let Some(noise) = &self.first_noise {
            error = error.with("stdoutHead", noise.as_str());
        }
        self.give_up(error, cx);
    }

    fn ask(&mut self, step: AgentQueryStep, cx: &mut QueryContext<'_>) {
        self.next_rpc += 1;
        let rpc = self.next_rpc;
        let bytes = match (step, &self.question) {
            (AgentQueryStep::Initialize, _) => ask_requests::initialize(rpc),
            (AgentQueryStep::Logout, _) => ask_requests::logout(rpc),
            (AgentQueryStep::Authenticate, _) => {
                let LoginMethod { id, .. } =
                    self.answer.method.as_ref().map(lenient::read).unwrap_or_default();
                requests::authenticate(rpc, id.0.unwrap_or_default())
            }
            (AgentQueryStep::ListSessions { .. }, AgentQuestion::ListSessions { cwd }) => {
                ask_requests::list_sessions(rpc, cwd.as_deref(), self.cursor.as_deref())
            }
            (AgentQueryStep::DeleteSession, AgentQuestion::DeleteSession { session_id }) => {
                ask_requests::delete_session(rpc, session_id)
            }
            (
                AgentQueryStep::NewSession
                | AgentQueryStep::ListSessions { .. }
                | AgentQueryStep::DeleteSession,
                _,
            ) => requests::new_session(
                rpc,
                &SessionContext { cwd: self.cwd.clone(), ..SessionContext::default() },
            ),
        };
        self.state = AgentQueryState::Asking { rpc, step };
        cx.send(OutgoingKind::Plain, bytes);
        cx.deadline(match step {
            AgentQueryStep::Initialize => self.deadlines.initialize_ms,
            _ => self.deadlines.request_ms,
        });
    }

    fn line(&mut self, line: AgentLine<'_>, cx: &mut QueryContext<'_>) {
        let line = match line {
            AgentLine::Whole(line) => line,
            AgentLine::TooLong { bytes, crc, head } => {
                let described = noise::describe(NoiseReason::TooLong, bytes, crc, head);
                return self.noise(described.head, cx);
            }
        };
        let text = String::from_utf8_lossy(line);
        let text = text.trim_start_matches('\u{feff}').trim_ascii();
        if text.is_empty() {
            return;
        }
        match message::parse(text) {
            Ok(RpcMessage::Response { id: Some(id), outcome }) => self.answered(id, outcome, line.len(), cx),
            // No user can be asked here: permission requests are rejected, and no other
            // client method is offered.
            Ok(RpcMessage::Request { id, method, .. }) if method == "session/request_permission" => {
                cx.send(OutgoingKind::Automatic, requests::permission(id, None));
            }
            Ok(RpcMessage::Request { id, method, .. }) => {
                let message = format!("Method not found: {}", shorten::text(&method, 200));
                cx.send(OutgoingKind::Automatic, requests::error(id, requests::METHOD_NOT_FOUND, &message));
            }
            Ok(RpcMessage::Notification { method, params: Some(params) }) if method == AUTH_STATUS_UPDATE => {
                // An invalid report does not replace a valid one.
                let status = AuthStatus::of(&results::value(params));
                self.answer.auth_status = status.or(self.answer.auth_status.take());
            }
            Ok(RpcMessage::Notification { .. }) => {}
            Ok(RpcMessage::Response { .. } | RpcMessage::InvalidRequest) => {
                self.noise(noise::of_line(NoiseReason::UnexpectedResponse, line).head, cx);
            }
            Err(reason) => self.noise(noise::of_line(reason, line).head, cx),
        }
    }

    fn noise(&mut self, head: String, cx: &mut QueryContext<'_>) {
        self.first_noise.get_or_insert_with(|| head.clone());
        cx.push(AgentQueryAction::Stdout(head));
    }

    fn answered(&mut self, id: &str, outcome: RpcOutcome<'_>, bytes: usize, cx: &mut QueryContext<'_>) {
        let (rpc, step) = match self.state {
            AgentQueryState::Asking { rpc, step } => (rpc, step),
            AgentQueryState::Closing { rpc } if message::quotes(id, rpc) => return self.close_input(cx),
            _ => return,
        };
        if !message::quotes(id, rpc) {
            return;
        }
        let page = matches!(step, AgentQueryStep::ListSessions { .. });
        match outcome {
            RpcOutcome::Error(error) => {
                let error = self.refused(step, &results::value(error));
                self.give_up(error, cx);
            }
            RpcOutcome::Result(raw) => {
                if !page {
                    self.phase_over(step.phase(), cx.now);
                }
                let result = results::value(raw);
                match step {
                    AgentQueryStep::Initialize => self.initialized(result, cx),
                    AgentQueryStep::NewSession => self.session_made(result, raw.get(), cx),
                    AgentQueryStep::ListSessions { pages } => self.page(result, pages + 1, bytes, cx),
                    AgentQueryStep::Authenticate | AgentQueryStep::Logout | AgentQueryStep::DeleteSession => {
                        self.close_input(cx)
                    }
                }
            }
        }
    }

    /// Converts the agent's error to ours.
    fn refused(&self, step: AgentQueryStep, error: &Value) -> Error {
        let ours = errors::rpc(step.method(), error);
        match results::error_code(error) {
            Some(requests::AUTH_REQUIRED) => Error { code: Code::AuthRequired, ..ours }
                .with("authMethods", self.described_methods())
                .with("reasonCategory", "auth"),
            Some(NOT_FOUND) if step == AgentQueryStep::DeleteSession => {
                Error { code: Code::SessionNotFound, ..ours }
            }
            Some(code) if code == i64::from(requests::METHOD_NOT_FOUND) => {
                Error { code: Code::AgentMethodUnsupported, ..ours }
            }
            _ => ours,
        }
    }

    fn initialized(&mut self, result: Value, cx: &mut QueryContext<'_>) {
        let foreign = results::foreign_version(&result);
        self.capabilities = lenient::read::<AskedInitialize>(&result).agent_capabilities;
        self.answer.initialize = Some(result);
        if let Some(version) = foreign {
            return self.give_up(errors::foreign_version(&version), cx);
        }
        let AskedCapabilities { session_capabilities: session, auth } = self.capabilities;
        let (step, offered) = match &self.question {
            AgentQuestion::Handshake => (AgentQueryStep::NewSession, true),
            AgentQuestion::Login { method } => match self.choose(method.as_deref()) {
                Ok(method) => {
                    let kind = LoginKind::of(&method);
                    self.answer.method = Some(method);
                    if kind != Some(LoginKind::Agent) {
                        return self.close_input(cx);
                    }
                    (AgentQueryStep::Authenticate, true)
                }
                Err(error) => return self.give_up(error, cx),
            },
            AgentQuestion::Logout => (AgentQueryStep::Logout, auth.logout.0),
            AgentQuestion::ListSessions { .. } => (AgentQueryStep::ListSessions { pages: 0 }, session.list.0),
            AgentQuestion::DeleteSession { .. } => (AgentQueryStep::DeleteSession, session.delete.0),
        };
        if offered {
            self.ask(step, cx);
        } else {
            self.give_up(unsupported(step.method()), cx);
        }
    }

    fn session_made(&mut self, result: Value, raw: &str, cx: &mut QueryContext<'_>) {
        let id = results::session_id(&result).map(str::to_owned);
        self.answer.session = Some(result);
        match id {
            None => self.give_up(errors::no_session_id(raw), cx),
            Some(id) if self.capabilities.session_capabilities.close.0 => {
                self.next_rpc += 1;
                self.state = AgentQueryState::Closing { rpc: self.next_rpc };
                cx.send(OutgoingKind::Plain, requests::close_session(self.next_rpc, &id));
                cx.deadline(self.deadlines.stop_grace_ms);
            }
            Some(_) => self.close_input(cx),
        }
    }

    fn page(&mut self, result: Value, pages: usize, bytes: usize, cx: &mut QueryContext<'_>) {
        self.kept += bytes;
        let SessionPage { sessions, next_cursor: Lenient(next) } = lenient::take(result);
        let (room, found) = (MAX_SESSIONS - self.answer.sessions.len(), sessions.len());
        self.answer.sessions.extend(sessions.into_iter().take(room));
        // A cursor that points to itself would loop forever.
        let next = next.filter(|next| self.cursor.as_ref() != Some(next));
        let full = found > room || pages >= MAX_PAGES || self.kept >= MAX_BYTES;
        if next.is_none() || full {
            self.answer.truncated = full && (next.is_some() || found > room);
            self.phase_over("list", cx.now);
            return self.close_input(cx);
        }
        self.cursor = next;
        self.ask(AgentQueryStep::ListSessions { pages }, cx);
    }

    /// The question failed. Ends the agent.
    fn give_up(&mut self, error: Error, cx: &mut QueryContext<'_>) {
        if let AgentQueryState::Asking { step, .. } = self.state
            && !self.answer.phases.iter().any(|phase| phase.phase == step.phase())
        {
            self.phase_over(step.phase(), cx.now);
        }
        let listens = error.code != Code::BackendTimeout;
        self.fail(error, cx);
        if listens {
            self.close_input(cx);
        } else {
            // An agent that does not answer ignores the end of its input too.
            cx.push(AgentQueryAction::CloseInput);
            self.terminate(cx);
        }
    }

    fn fail(&mut self, error: Error, cx: &mut QueryContext<'_>) {
        if self.answer.error.is_none() {
            self.answer.error = Some(match error.code {
                // The user's choice was wrong or is not offered. The launcher is not at fault.
                Code::InvalidArgument
                | Code::AgentMethodUnsupported
                | Code::SessionNotFound
                | Code::StopIncomplete
                | Code::AuthRequired => error,
                _ => errors::at_start(error, &self.command, &(cx.tail)()),
            });
        }
    }

    fn close_input(&mut self, cx: &mut QueryContext<'_>) {
        self.state = AgentQueryState::InputClosed;
        cx.push(AgentQueryAction::CloseInput);
        cx.deadline(self.deadlines.stop_grace_ms);
    }

    fn terminate(&mut self, cx: &mut QueryContext<'_>) {
        self.state = AgentQueryState::Terminated;
        cx.push(AgentQueryAction::Terminate);
        cx.deadline(self.deadlines.stop_grace_ms);
    }

    /// From here on, only the guard can report the end.
    fn killing(&mut self, cx: &mut QueryContext<'_>) {
        self.state = AgentQueryState::Killing;
        cx.push(AgentQueryAction::Deadline(KILL_TIMEOUT));
    }

    fn phase_over(&mut self, phase: &str, now: u64) {
        let millis = now.saturating_sub(self.since);
        self.answer.phases.push(PhaseTime { phase: phase.to_owned(), millis });
        self.since = now;
    }
}

/// ACP: the resource does not exist.
const NOT_FOUND: i64 = -32002;

/// Whether a capability is present: an object, or any value other than null and false.
/// The result of `initialize`, as far as a question depends on it.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct AskedInitialize {
    #[serde(deserialize_with = "lenient::object")]
    agent_capabilities: AskedCapabilities,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct AskedCapabilities {
    #[serde(deserialize_with = "lenient::object")]
    session_capabilities: AskedSessions,
    #[serde(deserialize_with = "lenient::object")]
    auth: AskedAuth,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(default)]
struct AskedSessions {
    list: Offered,
    delete: Offered,
    close: Offered,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(default)]
struct AskedAuth {
    logout: Offered,
}

/// A page of `session/list`.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SessionPage {
    #[serde(deserialize_with = "lenient::or_default")]
    sessions: Vec<Value>,
    next_cursor: Lenient<String>,
}
