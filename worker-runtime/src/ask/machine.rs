//! One question to an agent as a pure state machine, from the start to the proof that
//! no process is left.
//!
//! Does no I/O and reads no clock: each input carries the time.

use std::time::Duration;

use serde_json::Value;
use subagent_protocol::ask::{Answer, Deadlines, LoginKind, PhaseTime, Question};
use subagent_protocol::record::NoiseReason;
use subagent_protocol::{Code, Error};

use super::methods::unsupported;
use super::requests as ask_requests;
use crate::acp::lines::Line;
use crate::acp::message::{self, Message, Outcome};
use crate::acp::outgoing::{Kind, OutgoingLine};
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
pub(super) enum Input<'a> {
    /// The guard started the agent.
    Spawned,
    /// The agent could not be started; no process is left.
    SpawnFailed { errno: i32, message: String },
    /// A line of the agent's output.
    Line(Line<'a>),
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
pub(super) enum Action {
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
enum Step {
    Initialize,
    NewSession,
    Authenticate,
    Logout,
    ListSessions { pages: usize },
    DeleteSession,
}

impl Step {
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
enum State {
    /// The guard is starting the agent.
    Spawning,
    /// A request waits for its response.
    Asking { rpc: u64, step: Step },
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

pub(super) struct Machine {
    question: Question,
    deadlines: Deadlines,
    /// The session's working directory.
    cwd: String,
    /// Program and arguments, for errors.
    command: Vec<String>,
    state: State,
    pub(super) answer: Answer,
    capabilities: Value,
    next_rpc: u64,
    /// Start of the current phase, in milliseconds.
    since: u64,
    cursor: Option<String>,
    kept: usize,
    first_noise: Option<String>,
}

/// The context of one input.
pub(super) struct Cx<'a> {
    /// Milliseconds since the start.
    pub(super) now: u64,
    /// Returns the end of the agent's stderr.
    pub(super) tail: &'a dyn Fn() -> String,
    /// The resulting actions, in order.
    pub(super) actions: Vec<Action>,
}

impl Cx<'_> {
    fn push(&mut self, action: Action) {
        self.actions.push(action);
    }

    fn send(&mut self, kind: Kind, bytes: Vec<u8>) {
        self.push(Action::Send(OutgoingLine { kind, bytes }));
    }

    fn deadline(&mut self, millis: u64) {
        self.push(Action::Deadline(Duration::from_millis(millis)));
    }
}

impl Machine {
    /// A machine before the agent's start.
    pub(super) fn new(question: Question, deadlines: Deadlines, cwd: String, command: Vec<String>) -> Self {
        Self {
            question,
            deadlines,
            cwd,
            command,
            state: State::Spawning,
            answer: Answer::default(),
            capabilities: Value::Null,
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
        matches!(self.question, Question::Login { .. } | Question::Logout)
    }

    pub(super) fn into_answer(self) -> Answer {
        self.answer
    }

    /// Handles one input and adds the resulting actions.
    pub(super) fn handle(&mut self, input: Input<'_>, cx: &mut Cx<'_>) {
        match input {
            Input::Spawned => {
                self.phase_over("spawn", cx.now);
                if self.state == State::Spawning {
                    self.ask(Step::Initialize, cx);
                }
            }
            Input::SpawnFailed { errno, message } => {
                self.fail(errors::spawn_failed(&self.command, errno, &message), cx);
                self.state = State::Ended;
                cx.push(Action::Finish);
            }
            Input::Line(line) => self.line(line, cx),
            Input::PipeClosed => match self.state {
                State::Spawning | State::Asking { .. } => self.give_up(errors::pipe_closed_at_start(), cx),
                State::Closing { .. } => self.close_input(cx),
                _ => {}
            },
            Input::AgentExited(exit) => {
                if matches!(self.state, State::Spawning | State::Asking { .. }) {
                    self.fail(errors::exited_at_start(&self.command, exit), cx);
                    self.since = cx.now;
                }
                if self.state != State::Ended {
                    self.killing(cx);
                }
            }
            Input::TreeEnded => {
                if self.state != State::Ended {
                    if matches!(self.state, State::Spawning | State::Asking { .. }) {
                        self.fail(errors::exited_at_start(&self.command, Exit::default()), cx);
                    }
                    self.phase_over("end", cx.now);
                    self.state = State::Ended;
                    cx.push(Action::Finish);
                }
            }
            Input::Deadline => self.too_late(cx),
            Input::HungUp => match self.state {
                State::Spawning | State::Asking { .. } | State::Closing { .. } => self.close_input(cx),
                _ => {}
            },
        }
    }

    /// A deadline has passed: takes the next step.
    fn too_late(&mut self, cx: &mut Cx<'_>) {
        match self.state {
            State::Spawning => self.no_answer("initialize", "spawn", self.deadlines.initialize_ms, cx),
            State::Asking { step, .. } => {
                let millis = match step {
                    Step::Initialize => self.deadlines.initialize_ms,
                    _ => self.deadlines.request_ms,
                };
                self.no_answer(step.method(), step.phase(), millis, cx);
            }
            State::Closing { .. } => self.close_input(cx),
            State::InputClosed => self.terminate(cx),
            State::Terminated => {
                self.killing(cx);
                cx.push(Action::EndTree);
            }
            // The guard keeps trying after this process ends.
            State::Killing => {
                self.fail(errors::not_ended(KILL_TIMEOUT.as_secs()), cx);
                self.phase_over("end", cx.now);
                self.state = State::Ended;
                cx.push(Action::Finish);
            }
            State::Ended => {}
        }
    }

    fn no_answer(&mut self, method: &str, phase: &str, millis: u64, cx: &mut Cx<'_>) {
        let mut error = errors::no_answer(&self.command, method, phase, millis as f64 / 1000.0);
        if let Some(noise) = &self.first_noise {
            error = error.with("stdoutHead", noise.as_str());
        }
        self.give_up(error, cx);
    }

    fn ask(&mut self, step: Step, cx: &mut Cx<'_>) {
        self.next_rpc += 1;
        let rpc = self.next_rpc;
        let bytes = match (step, &self.question) {
            (Step::Initialize, _) => ask_requests::initialize(rpc),
            (Step::Logout, _) => ask_requests::logout(rpc),
            (Step::Authenticate, _) => {
                let id = self.answer.method.as_ref().map_or(&Value::Null, |method| &method["id"]);
                requests::authenticate(rpc, id.as_str().unwrap_or_default())
            }
            (Step::ListSessions { .. }, Question::ListSessions { cwd }) => {
                ask_requests::list_sessions(rpc, cwd.as_deref(), self.cursor.as_deref())
            }
            (Step::DeleteSession, Question::DeleteSession { session_id }) => {
                ask_requests::delete_session(rpc, session_id)
            }
            (Step::NewSession | Step::ListSessions { .. } | Step::DeleteSession, _) => requests::new_session(
                rpc,
                &SessionContext { cwd: self.cwd.clone(), ..SessionContext::default() },
            ),
        };
        self.state = State::Asking { rpc, step };
        cx.send(Kind::Plain, bytes);
        cx.deadline(match step {
            Step::Initialize => self.deadlines.initialize_ms,
            _ => self.deadlines.request_ms,
        });
    }

    fn line(&mut self, line: Line<'_>, cx: &mut Cx<'_>) {
        let line = match line {
            Line::Whole(line) => line,
            Line::TooLong { bytes, crc, head } => {
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
            Ok(Message::Response { id: Some(id), outcome }) => self.answered(id, outcome, line.len(), cx),
            // No user can be asked here: permission requests are rejected, and no other
            // client method is offered.
            Ok(Message::Request { id, method, .. }) if method == "session/request_permission" => {
                cx.send(Kind::Automatic, requests::permission(id, None));
            }
            Ok(Message::Request { id, method, .. }) => {
                let message = format!("Method not found: {}", shorten::text(&method, 200));
                cx.send(Kind::Automatic, requests::error(id, requests::METHOD_NOT_FOUND, &message));
            }
            Ok(Message::Notification { .. }) => {}
            Ok(Message::Response { .. } | Message::InvalidRequest) => {
                self.noise(noise::of_line(NoiseReason::UnexpectedResponse, line).head, cx);
            }
            Err(reason) => self.noise(noise::of_line(reason, line).head, cx),
        }
    }

    fn noise(&mut self, head: String, cx: &mut Cx<'_>) {
        self.first_noise.get_or_insert_with(|| head.clone());
        cx.push(Action::Stdout(head));
    }

    fn answered(&mut self, id: &str, outcome: Outcome<'_>, bytes: usize, cx: &mut Cx<'_>) {
        let (rpc, step) = match self.state {
            State::Asking { rpc, step } => (rpc, step),
            State::Closing { rpc } if message::quotes(id, rpc) => return self.close_input(cx),
            _ => return,
        };
        if !message::quotes(id, rpc) {
            return;
        }
        let page = matches!(step, Step::ListSessions { .. });
        match outcome {
            Outcome::Error(error) => {
                let error = self.refused(step, &results::value(error));
                self.give_up(error, cx);
            }
            Outcome::Result(raw) => {
                if !page {
                    self.phase_over(step.phase(), cx.now);
                }
                let result = results::value(raw);
                match step {
                    Step::Initialize => self.initialized(result, cx),
                    Step::NewSession => self.session_made(result, raw.get(), cx),
                    Step::ListSessions { pages } => self.page(&result, pages + 1, bytes, cx),
                    Step::Authenticate | Step::Logout | Step::DeleteSession => self.close_input(cx),
                }
            }
        }
    }

    /// Converts the agent's error to ours.
    fn refused(&self, step: Step, error: &Value) -> Error {
        let ours = errors::rpc(step.method(), error);
        match results::error_code(error) {
            Some(requests::AUTH_REQUIRED) => Error { code: Code::AuthRequired, ..ours }
                .with("authMethods", self.described_methods())
                .with("reasonCategory", "auth"),
            Some(NOT_FOUND) if step == Step::DeleteSession => Error { code: Code::SessionNotFound, ..ours },
            Some(code) if code == i64::from(requests::METHOD_NOT_FOUND) => {
                Error { code: Code::AgentMethodUnsupported, ..ours }
            }
            _ => ours,
        }
    }

    fn initialized(&mut self, result: Value, cx: &mut Cx<'_>) {
        let foreign =
            (!results::speaks_v1(&result)).then(|| errors::foreign_version(&result["protocolVersion"]));
        self.capabilities = result["agentCapabilities"].clone();
        self.answer.initialize = Some(result);
        if let Some(error) = foreign {
            return self.give_up(error, cx);
        }
        let session = &self.capabilities["sessionCapabilities"];
        let (step, offered) = match &self.question {
            Question::Handshake => (Step::NewSession, true),
            Question::Login { method } => match self.choose(method.as_deref()) {
                Ok(method) => {
                    let kind = LoginKind::of(&method);
                    self.answer.method = Some(method);
                    if kind != Some(LoginKind::Agent) {
                        return self.close_input(cx);
                    }
                    (Step::Authenticate, true)
                }
                Err(error) => return self.give_up(error, cx),
            },
            Question::Logout => (Step::Logout, offered(&self.capabilities["auth"]["logout"])),
            Question::ListSessions { .. } => (Step::ListSessions { pages: 0 }, offered(&session["list"])),
            Question::DeleteSession { .. } => (Step::DeleteSession, offered(&session["delete"])),
        };
        if offered {
            self.ask(step, cx);
        } else {
            self.give_up(unsupported(step.method()), cx);
        }
    }

    fn session_made(&mut self, result: Value, raw: &str, cx: &mut Cx<'_>) {
        let id = results::session_id(&result).map(str::to_owned);
        self.answer.session = Some(result);
        match id {
            None => self.give_up(errors::no_session_id(raw), cx),
            Some(id) if offered(&self.capabilities["sessionCapabilities"]["close"]) => {
                self.next_rpc += 1;
                self.state = State::Closing { rpc: self.next_rpc };
                cx.send(Kind::Plain, requests::close_session(self.next_rpc, &id));
                cx.deadline(self.deadlines.stop_grace_ms);
            }
            Some(_) => self.close_input(cx),
        }
    }

    fn page(&mut self, result: &Value, pages: usize, bytes: usize, cx: &mut Cx<'_>) {
        self.kept += bytes;
        let sessions = result["sessions"].as_array().map(Vec::as_slice).unwrap_or_default();
        let room = MAX_SESSIONS - self.answer.sessions.len();
        self.answer.sessions.extend(sessions.iter().take(room).cloned());
        let next = result["nextCursor"].as_str().map(str::to_owned);
        // A cursor that points to itself would loop forever.
        let next = next.filter(|next| self.cursor.as_ref() != Some(next));
        let full = sessions.len() > room || pages >= MAX_PAGES || self.kept >= MAX_BYTES;
        if next.is_none() || full {
            self.answer.truncated = full && (next.is_some() || sessions.len() > room);
            self.phase_over("list", cx.now);
            return self.close_input(cx);
        }
        self.cursor = next;
        self.ask(Step::ListSessions { pages }, cx);
    }

    /// The question failed. Ends the agent.
    fn give_up(&mut self, error: Error, cx: &mut Cx<'_>) {
        if let State::Asking { step, .. } = self.state
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
            cx.push(Action::CloseInput);
            self.terminate(cx);
        }
    }

    fn fail(&mut self, error: Error, cx: &mut Cx<'_>) {
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

    fn close_input(&mut self, cx: &mut Cx<'_>) {
        self.state = State::InputClosed;
        cx.push(Action::CloseInput);
        cx.deadline(self.deadlines.stop_grace_ms);
    }

    fn terminate(&mut self, cx: &mut Cx<'_>) {
        self.state = State::Terminated;
        cx.push(Action::Terminate);
        cx.deadline(self.deadlines.stop_grace_ms);
    }

    /// From here on, only the guard can report the end.
    fn killing(&mut self, cx: &mut Cx<'_>) {
        self.state = State::Killing;
        cx.push(Action::Deadline(KILL_TIMEOUT));
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
fn offered(capability: &Value) -> bool {
    !matches!(capability, Value::Null | Value::Bool(false))
}
