//! From the agent's start to its session.

use std::time::Duration;

use serde_json::value::RawValue;
use serde_json::{Value, json};
use subagent_protocol::MAX_LINE_BYTES;
use subagent_protocol::error::{Code, Error};
use subagent_protocol::mcp::McpServers;
use subagent_protocol::options::{Current, Options};
use subagent_protocol::record::{self, AgentStarted, RecordType, SessionOrigin, StartFailed};

use super::{
    AgentSession, Conversation, ConversationAction, ConversationState, Cx, Exit, InitializedAgent, Timer,
    errors, rate_limits,
};
use crate::acp::message::RpcOutcome;
use crate::acp::outgoing::OutgoingKind;
use crate::acp::{requests, results};
use crate::shorten;

/// A replay ends after a pause of this length. The replay may continue `MAX_REPLAY_PAUSES` times.
const REPLAY_PAUSE: Duration = Duration::from_millis(200);
const MAX_REPLAY_PAUSES: u32 = 10;
/// Maximum length of the reason for a lost session, in bytes.
const MAX_REASON: usize = 1000;

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
    rpc: u64,
    pub(super) attempt: Attempt,
    /// Further attempts, in order.
    rest: Vec<Attempt>,
    /// Why earlier attempts failed.
    lost: Vec<String>,
    /// Whether the agent was logged in for this attempt.
    pub(super) logged_in: bool,
}

pub(super) struct Opened {
    pub(super) id: String,
    attempt: Attempt,
    lost: Vec<String>,
    /// The agent's response that opened the session.
    result: Option<Box<RawValue>>,
}

impl Conversation {
    pub(super) fn begin(&mut self, cx: &mut Cx<'_>) {
        cx.set_timer(Timer::Startup, self.config.timeouts.startup_ms);
        if let Some(millis) = self.config.timeouts.initialize_ms {
            cx.set_timer(Timer::Phase, millis);
        }
    }

    pub(super) fn agent_started(&mut self, started: &AgentStarted, cx: &mut Cx<'_>) {
        cx.record(RecordType::AgentStarted, None, started);
        // An end may have been requested before the agent existed.
        if matches!(self.state, ConversationState::Starting) {
            let rpc = self.rpc();
            self.state = ConversationState::Initializing { rpc };
            cx.send(OutgoingKind::Plain, requests::initialize(rpc, reads_files(&self.config.command)));
        }
    }

    pub(super) fn spawn_failed(&mut self, errno: i32, message: &str, cx: &mut Cx<'_>) {
        let error = errors::spawn_failed(&self.config.command, errno, message);
        self.record_start_failure(error, cx);
        self.tree_ended(0, 0, cx);
    }

    /// Returns the pending method and the step it belongs to. `None` once the session exists: the
    /// replay has its own limit.
    fn awaited(&self) -> Option<(&'static str, &'static str)> {
        match &self.state {
            ConversationState::Starting => Some(("initialize", "spawn")),
            ConversationState::Initializing { .. } => Some(("initialize", "initialize")),
            ConversationState::Opening(opening) => Some((opening.attempt.method(), opening.attempt.method())),
            ConversationState::LoggingIn(_) => Some(("authenticate", "authenticate")),
            _ => None,
        }
    }

    pub(super) fn startup_timeout(&mut self, cx: &mut Cx<'_>) {
        let Some((method, phase)) = self.awaited() else { return };
        let seconds = self.config.timeouts.startup_ms as f64 / 1000.0;
        let error = errors::startup_timeout(&self.config.command, method, phase, seconds);
        self.not_answered(error, cx);
    }

    /// A request missed its own deadline. Gives up an attempt to restore the session if it also
    /// failed in the previous start.
    pub(super) fn phase_timeout(&mut self, cx: &mut Cx<'_>) {
        let Some((method, phase)) = self.awaited() else { return self.give_up_turn_login(cx) };
        let millis = self.phase_millis().unwrap_or(self.config.timeouts.startup_ms);
        if let ConversationState::Opening(opening) = &mut self.state
            && opening.attempt != Attempt::New
            && !opening.rest.is_empty()
            && !self.config.restore_failures.is_empty()
        {
            let (rest, mut lost) = (std::mem::take(&mut opening.rest), std::mem::take(&mut opening.lost));
            let (rpc, logged_in) = (opening.rpc, opening.logged_in);
            lost.push(format!("{method}: no answer within {} s", millis as f64 / 1000.0));
            cx.send(OutgoingKind::Plain, requests::cancel_request(rpc));
            return self.open_next(rest, lost, logged_in, cx);
        }
        let error = errors::no_answer(&self.config.command, method, phase, millis as f64 / 1000.0);
        self.not_answered(error, cx);
    }

    /// Returns the deadline of the pending request, if it has its own.
    fn phase_millis(&self) -> Option<u64> {
        let timeouts = &self.config.timeouts;
        match &self.state {
            ConversationState::Starting | ConversationState::Initializing { .. } => timeouts.initialize_ms,
            // After an attempt that hung before, time must remain for a new session.
            ConversationState::Opening(Opening {
                attempt: Attempt::Resume | Attempt::Load, rest, ..
            }) if !rest.is_empty() && !self.config.restore_failures.is_empty() => {
                let third = timeouts.startup_ms / 3;
                Some(timeouts.session_ms.map_or(third, |millis| millis.min(third)))
            }
            _ => timeouts.session_ms,
        }
    }

    fn not_answered(&mut self, mut error: Error, cx: &mut Cx<'_>) {
        if let Some(noise) = &self.first_noise {
            error = error.with("stdoutHead", noise.as_str());
        }
        self.fail_start(error, cx);
    }

    /// Handles every start that fails while the agent runs: records the error and ends the agent.
    pub(super) fn fail_start(&mut self, error: Error, cx: &mut Cx<'_>) {
        self.record_start_failure(error, cx);
        self.end_agent_now(cx);
    }

    fn record_start_failure(&mut self, error: Error, cx: &mut Cx<'_>) {
        cx.clear_timer(Timer::Startup);
        cx.clear_timer(Timer::Phase);
        // A start that was called off has not failed.
        if self.is_starting() {
            let error = match &self.state {
                // The next runtime must know that this one was restoring the session. A full
                // disk says nothing about that.
                ConversationState::Opening(Opening {
                    attempt: attempt @ (Attempt::Resume | Attempt::Load),
                    ..
                }) if error.code != Code::StorageFull => error.with("phase", attempt.method()),
                _ => error,
            };
            let error = errors::at_start(error, &self.config.command, &cx.tail.text());
            cx.record(RecordType::StartFailed, None, &StartFailed { error: error.clone() });
            self.failed = Some(error);
        }
    }

    pub(super) fn exited_at_start(&mut self, exit: Exit, cx: &mut Cx<'_>) {
        let error = errors::exited_at_start(&self.config.command, exit);
        self.record_start_failure(error, cx);
    }

    pub(super) fn initialized(&mut self, outcome: RpcOutcome<'_>, cx: &mut Cx<'_>) {
        let raw = match outcome {
            RpcOutcome::Result(raw) => raw,
            RpcOutcome::Error(error) => {
                let error = errors::rpc("initialize", &results::value(error));
                return self.fail_start(error, cx);
            }
        };
        let result = results::value(raw);
        if !results::speaks_v1(&result) {
            return self.fail_start(errors::foreign_version(&result["protocolVersion"]), cx);
        }
        let capabilities = results::Capabilities::of(&result);
        let auth_methods = results::auth_methods(&result);
        self.agent = Some(InitializedAgent { capabilities, auth_methods, raw: raw.to_owned() });
        self.take_system_prompt(capabilities.system_prompt);
        if let Err(error) = errors::check_context(&self.config.context, capabilities) {
            return self.fail_start(error, cx);
        }
        let mut attempts = Vec::new();
        let mut lost = Vec::new();
        if self.config.session.is_some() && self.config.restore_failures.len() > 1 && !self.config.resume_only
        {
            lost.extend(
                self.config.restore_failures.iter().map(|failure| shorten::text(failure, MAX_REASON)),
            );
        } else if self.config.session.is_some() {
            if capabilities.resume {
                attempts.push(Attempt::Resume);
            }
            // Tries an agent that does not mention the capability. Believes one that denies it.
            if capabilities.load != Some(false) {
                attempts.push(Attempt::Load);
            }
            if attempts.is_empty() {
                lost.push("the agent offers neither session/resume nor session/load".to_owned());
            }
        }
        if !self.config.resume_only {
            attempts.push(Attempt::New);
        } else if attempts.is_empty() {
            let stored = self.config.session.as_deref().unwrap_or_default();
            return self.fail_start(errors::cannot_resume(stored), cx);
        }
        self.open_next(attempts, lost, false, cx);
    }

    /// Starts the first of these attempts; the list is not empty.
    fn open_next(&mut self, mut attempts: Vec<Attempt>, lost: Vec<String>, logged_in: bool, cx: &mut Cx<'_>) {
        let attempt = attempts.remove(0);
        self.open_session(Opening { rpc: 0, attempt, rest: attempts, lost, logged_in }, cx);
    }

    pub(super) fn open_session(&mut self, opening: Opening, cx: &mut Cx<'_>) {
        let (attempt, rpc) = (opening.attempt, self.rpc());
        let context = &self.config.context;
        let stored = self.config.session.as_deref().unwrap_or_default();
        cx.send(
            OutgoingKind::Plain,
            match attempt {
                Attempt::Resume => requests::resume_session(rpc, stored, context),
                Attempt::Load => requests::load_session(rpc, stored, context),
                Attempt::New => requests::new_session(rpc, context),
            },
        );
        // Some agents also repeat the history in `session/resume`.
        self.replaying = attempt != Attempt::New;
        self.state = ConversationState::Opening(Opening { rpc, ..opening });
        match self.phase_millis() {
            Some(millis) => cx.set_timer(Timer::Phase, millis),
            None => cx.clear_timer(Timer::Phase),
        }
    }

    /// Returns the id of the pending session request.
    pub(super) fn awaits_session(&self) -> Option<u64> {
        match &self.state {
            ConversationState::Opening(opening) => Some(opening.rpc),
            _ => None,
        }
    }

    pub(super) fn session_answered(&mut self, outcome: RpcOutcome<'_>, cx: &mut Cx<'_>) {
        let ConversationState::Opening(opening) = &mut self.state else { return };
        let (attempt, logged_in) = (opening.attempt, opening.logged_in);
        let rest = std::mem::take(&mut opening.rest);
        let mut lost = std::mem::take(&mut opening.lost);
        // Agents without any login return the same error for every failure.
        let may_want_login = rest.is_empty() || self.offers_login();
        match outcome {
            RpcOutcome::Error(error) => {
                let error = results::value(error);
                if may_want_login && results::error_code(&error) == Some(requests::AUTH_REQUIRED) {
                    let opening = Opening { rpc: 0, attempt, rest, lost, logged_in };
                    return self.session_wants_login(opening, &error, cx);
                }
                let limited = rate_limits::is_limit(&error);
                // A limit says nothing of the session: another one would lose its context.
                if !rest.is_empty() && !limited {
                    lost.push(format!("{}: {}", attempt.method(), results::error_text(&error)));
                    return self.open_next(rest, lost, logged_in, cx);
                }
                let error = if limited {
                    errors::session_limited(attempt.method(), &error)
                } else if attempt == Attempt::New {
                    errors::rpc(attempt.method(), &error)
                } else {
                    let stored = self.config.session.as_deref().unwrap_or_default();
                    errors::session_refused(stored, attempt.method(), &error)
                };
                self.fail_start(error, cx);
            }
            RpcOutcome::Result(raw) => {
                let value = results::value(raw);
                let result = results::opened(raw);
                self.settings.offer.opened(&value, attempt == Attempt::New);
                if attempt == Attempt::New {
                    let Current { mode, model, .. } = self.settings.offer.current();
                    self.settings.began = Options { mode, model, ..Options::default() };
                }
                match (attempt, results::session_id(&value)) {
                    (Attempt::New, Some(id)) => {
                        self.session_opened(Opened { id: id.to_owned(), attempt, lost, result }, cx);
                    }
                    (Attempt::New, None) => {
                        let error = errors::no_session_id(raw.get());
                        self.fail_start(error, cx);
                    }
                    (Attempt::Resume | Attempt::Load, returned) => {
                        let stored = self.config.session.clone().unwrap_or_default();
                        // ACP has no id here. An agent that returns one anyway means that session.
                        let id =
                            returned.filter(|returned| !returned.is_empty()).unwrap_or(&stored).to_owned();
                        if id != stored {
                            if self.config.resume_only {
                                let error = errors::other_session(&stored, attempt.method(), &id);
                                return self.fail_start(error, cx);
                            }
                            let other = shorten::text(&id, 200);
                            lost.push(format!(
                                "{}: the agent has opened the session {other} instead",
                                attempt.method()
                            ));
                        }
                        if attempt == Attempt::Resume {
                            self.replaying = false;
                            return self.session_opened(Opened { id, attempt, lost, result }, cx);
                        }
                        cx.clear_timer(Timer::Phase);
                        cx.set_timer_to(Timer::Replay, REPLAY_PAUSE);
                        self.state =
                            ConversationState::Replaying { id, looks: 0, seen: self.replayed, lost, result };
                    }
                }
            }
        }
    }

    /// Ends the replay of a loaded session after a pause. Some agents continue it after their
    /// response, and it must not count as output of the next turn.
    pub(super) fn replay_paused(&mut self, cx: &mut Cx<'_>) {
        let ConversationState::Replaying { id, looks, seen, lost, result } = &mut self.state else { return };
        if *seen != self.replayed && *looks < MAX_REPLAY_PAUSES {
            (*looks, *seen) = (*looks + 1, self.replayed);
            return cx.set_timer_to(Timer::Replay, REPLAY_PAUSE);
        }
        let (id, lost, result) = (std::mem::take(id), std::mem::take(lost), result.take());
        self.session_opened(Opened { id, attempt: Attempt::Load, lost, result }, cx);
    }

    /// All options of the session are set.
    pub(super) fn ready(&mut self, cx: &mut Cx<'_>) {
        let ConversationState::Applying(Opened { id, attempt, lost, result }) = &mut self.state else {
            return;
        };
        let (id, attempt) = (std::mem::take(id), *attempt);
        let (lost, opened) = (std::mem::take(lost), result.take());
        // A session with another id than the stored one has unknown content.
        let context_lost =
            self.config.session.as_ref().is_some_and(|stored| attempt == Attempt::New || *stored != id);
        let prompt_by = self.prompt_by(attempt == Attempt::New || context_lost);
        let agent = self.agent.as_ref();
        // A record that is too long for its reader might lose the session.
        let room = MAX_LINE_BYTES.saturating_sub(agent.map_or(0, |agent| agent.raw.get().len()));
        let opened = opened.filter(|opened| opened.get().len() <= room);
        let body = record::SessionRecord {
            session_id: id.clone(),
            origin: match attempt {
                Attempt::New => SessionOrigin::New,
                Attempt::Load => SessionOrigin::Loaded,
                Attempt::Resume => SessionOrigin::Resumed,
            },
            context_lost,
            context_lost_reason: (context_lost && !lost.is_empty())
                .then(|| shorten::text(&lost.join("; "), 4 * MAX_REASON)),
            agent: agent
                .map_or_else(|| crate::journal::batch::to_raw(&json!(null)), |agent| agent.raw.clone()),
            opened,
            prompt_by,
            no_model: self.settings.no_model.take(),
            began: std::mem::take(&mut self.settings.began),
        };
        let can_close = agent.is_some_and(|agent| agent.capabilities.close);
        cx.record(RecordType::Session, None, &body);
        if self.replayed > 0 {
            cx.push(ConversationAction::Note(format!(
                "{} replayed {} updates",
                attempt.method(),
                self.replayed
            )));
        }
        self.first_noise = None;
        // The servers may contain secrets and are no longer needed.
        self.config.context.mcp_servers = McpServers::default();
        self.state = ConversationState::Ready { session: AgentSession { id, can_close }, turn: None };
    }
}

/// Whether reading files is offered to this agent. Gemini CLI (seen in 0.61) takes the error for a
/// missing file for a failure of ours. It reads before it writes, so it could create no file. It
/// can read files itself.
fn reads_files(command: &[String]) -> bool {
    let is_gemini = |word: &String| {
        let is_its_name = |name: &str| matches!(name, "gemini" | "gemini.js" | "gemini-cli");
        word.split('/').any(|name| is_its_name(name) || name.starts_with("gemini-cli@"))
    };
    !command.iter().any(is_gemini)
}

/// Whether an update describes the session's present state, as opposed to its history.
pub(super) fn is_of_the_present(kind: &str) -> bool {
    matches!(kind, "available_commands" | "mode" | "usage" | "config_option" | "session_info")
}

/// Quotes a response in an error, with a length limit.
pub(super) fn excerpt(text: &str) -> Value {
    text.chars().take(1000).collect::<String>().into()
}
