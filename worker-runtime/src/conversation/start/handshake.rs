//! From the agent's start to its session.

use std::time::Duration;

use subagent_protocol::error::Error;
use subagent_protocol::options::{Current, Options};
use subagent_protocol::record::{AgentStarted, RecordType};

use super::{applying, definition, login};
use crate::acp::message::RpcOutcome;
use crate::acp::outgoing::OutgoingKind;
use crate::acp::{requests, results};
use crate::conversation::effects::{Cx, Timer};
use crate::conversation::end::ending;
use crate::conversation::state::{
    Attempt, Conversation, ConversationState, InitializedAgent, LoggingIn, Opened, Opening,
};
use crate::conversation::{errors, rate_limits};
use crate::shorten;

/// A replay ends after a pause of this length. The replay may continue `MAX_REPLAY_PAUSES` times.
const REPLAY_PAUSE: Duration = Duration::from_millis(200);
const MAX_REPLAY_PAUSES: u32 = 10;

pub(in crate::conversation) fn begin(conversation: &mut Conversation, cx: &mut Cx<'_>) {
    cx.set_timer(Timer::Startup, conversation.config.timeouts.startup_ms);
    if let Some(millis) = conversation.config.timeouts.initialize_ms {
        cx.set_timer(Timer::Phase, millis);
    }
}

pub(in crate::conversation) fn agent_started(
    conversation: &mut Conversation,
    started: &AgentStarted,
    cx: &mut Cx<'_>,
) {
    cx.record(RecordType::AgentStarted, None, started);
    // An end may have been requested before the agent existed.
    if matches!(conversation.state, ConversationState::Starting) {
        let rpc = conversation.rpc();
        conversation.state = ConversationState::Initializing { rpc };
        cx.send(OutgoingKind::Plain, requests::initialize(rpc, reads_files(&conversation.config.command)));
    }
}

/// Returns the pending method and the step it belongs to. `None` once the session exists: the
/// replay has its own limit.
fn awaited(conversation: &Conversation) -> Option<(&'static str, &'static str)> {
    match &conversation.state {
        ConversationState::Starting => Some(("initialize", "spawn")),
        ConversationState::Initializing { .. } => Some(("initialize", "initialize")),
        ConversationState::Opening(opening) => Some((opening.attempt.method(), opening.attempt.method())),
        ConversationState::LoggingIn(_) => Some(("authenticate", "authenticate")),
        _ => None,
    }
}

pub(in crate::conversation) fn startup_timeout(conversation: &mut Conversation, cx: &mut Cx<'_>) {
    let Some((method, phase)) = awaited(conversation) else { return };
    let seconds = conversation.config.timeouts.startup_ms as f64 / 1000.0;
    let error = errors::startup_timeout(&conversation.config.command, method, phase, seconds);
    not_answered(conversation, error, cx);
}

/// A request missed its own deadline. Gives up an attempt to restore the session if it also
/// failed in the previous start.
pub(in crate::conversation) fn phase_timeout(conversation: &mut Conversation, cx: &mut Cx<'_>) {
    let Some((method, phase)) = awaited(conversation) else {
        return login::give_up_turn_login(conversation, cx);
    };
    let millis = phase_millis(conversation).unwrap_or(conversation.config.timeouts.startup_ms);
    if let ConversationState::Opening(opening) = &mut conversation.state
        && opening.attempt != Attempt::New
        && !opening.rest.is_empty()
        && !conversation.config.restore_failures.is_empty()
    {
        let (rest, mut lost) = (std::mem::take(&mut opening.rest), std::mem::take(&mut opening.lost));
        let (rpc, logged_in) = (opening.rpc, opening.logged_in);
        lost.push(format!("{method}: no answer within {} s", millis as f64 / 1000.0));
        cx.send(OutgoingKind::Plain, requests::cancel_request(rpc));
        return open_next(conversation, rest, lost, logged_in, cx);
    }
    let error = errors::no_answer(&conversation.config.command, method, phase, millis as f64 / 1000.0);
    not_answered(conversation, error, cx);
}

/// Returns the deadline of the pending request, if it has its own.
fn phase_millis(conversation: &Conversation) -> Option<u64> {
    let timeouts = &conversation.config.timeouts;
    match &conversation.state {
        ConversationState::Starting | ConversationState::Initializing { .. } => timeouts.initialize_ms,
        // After an attempt that hung before, time must remain for a new session.
        ConversationState::Opening(Opening { attempt: Attempt::Resume | Attempt::Load, rest, .. })
            if !rest.is_empty() && !conversation.config.restore_failures.is_empty() =>
        {
            let third = timeouts.startup_ms / 3;
            Some(timeouts.session_ms.map_or(third, |millis| millis.min(third)))
        }
        _ => timeouts.session_ms,
    }
}

fn not_answered(conversation: &mut Conversation, mut error: Error, cx: &mut Cx<'_>) {
    if let Some(noise) = &conversation.first_noise {
        error = error.with("stdoutHead", noise.as_str());
    }
    ending::fail_start(conversation, error, cx);
}

pub(in crate::conversation) fn initialized(
    conversation: &mut Conversation,
    outcome: RpcOutcome<'_>,
    cx: &mut Cx<'_>,
) {
    let raw = match outcome {
        RpcOutcome::Result(raw) => raw,
        RpcOutcome::Error(error) => {
            let error = errors::rpc("initialize", &results::value(error));
            return ending::fail_start(conversation, error, cx);
        }
    };
    let result = results::value(raw);
    if let Some(version) = results::foreign_version(&result) {
        return ending::fail_start(conversation, errors::foreign_version(&version), cx);
    }
    let capabilities = results::Capabilities::of(&result);
    let auth_methods = results::auth_methods(&result);
    conversation.agent = Some(InitializedAgent { capabilities, auth_methods, raw: raw.to_owned() });
    definition::take_system_prompt(&mut conversation.config.context, capabilities.system_prompt);
    if let Err(error) = errors::check_context(&conversation.config.context, capabilities) {
        return ending::fail_start(conversation, error, cx);
    }
    let mut attempts = Vec::new();
    let mut lost = Vec::new();
    if conversation.config.session.is_some()
        && conversation.config.restore_failures.len() > 1
        && !conversation.config.resume_only
    {
        lost.extend(
            conversation
                .config
                .restore_failures
                .iter()
                .map(|failure| shorten::text(failure, applying::MAX_REASON)),
        );
    } else if conversation.config.session.is_some() {
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
    if !conversation.config.resume_only {
        attempts.push(Attempt::New);
    } else if attempts.is_empty() {
        let stored = conversation.config.session.as_deref().unwrap_or_default();
        return ending::fail_start(conversation, errors::cannot_resume(stored), cx);
    }
    open_next(conversation, attempts, lost, false, cx);
}

/// Starts the first of these attempts; the list is not empty.
fn open_next(
    conversation: &mut Conversation,
    mut attempts: Vec<Attempt>,
    lost: Vec<String>,
    logged_in: bool,
    cx: &mut Cx<'_>,
) {
    let attempt = attempts.remove(0);
    open_session(conversation, Opening { rpc: 0, attempt, rest: attempts, lost, logged_in }, cx);
}

fn open_session(conversation: &mut Conversation, opening: Opening, cx: &mut Cx<'_>) {
    let (attempt, rpc) = (opening.attempt, conversation.rpc());
    let context = &conversation.config.context;
    let stored = conversation.config.session.as_deref().unwrap_or_default();
    cx.send(
        OutgoingKind::Plain,
        match attempt {
            Attempt::Resume => requests::resume_session(rpc, stored, context),
            Attempt::Load => requests::load_session(rpc, stored, context),
            Attempt::New => requests::new_session(rpc, context),
        },
    );
    // Some agents also repeat the history in `session/resume`.
    conversation.replay.is_running = attempt != Attempt::New;
    conversation.state = ConversationState::Opening(Opening { rpc, ..opening });
    match phase_millis(conversation) {
        Some(millis) => cx.set_timer(Timer::Phase, millis),
        None => cx.clear_timer(Timer::Phase),
    }
}

pub(in crate::conversation) fn session_answered(
    conversation: &mut Conversation,
    outcome: RpcOutcome<'_>,
    cx: &mut Cx<'_>,
) {
    let ConversationState::Opening(opening) = &mut conversation.state else { return };
    let (attempt, logged_in) = (opening.attempt, opening.logged_in);
    let rest = std::mem::take(&mut opening.rest);
    let mut lost = std::mem::take(&mut opening.lost);
    // Agents without any login return the same error for every failure.
    let may_want_login = rest.is_empty() || login::offers_login(conversation);
    match outcome {
        RpcOutcome::Error(error) => {
            let error = results::value(error);
            if may_want_login && results::error_code(&error) == Some(requests::AUTH_REQUIRED) {
                let opening = Opening { rpc: 0, attempt, rest, lost, logged_in };
                return login::session_wants_login(conversation, opening, &error, cx);
            }
            let limited = rate_limits::is_limit(&error);
            // A limit says nothing of the session: another one would lose its context.
            if !rest.is_empty() && !limited {
                lost.push(format!("{}: {}", attempt.method(), results::error_text(&error)));
                return open_next(conversation, rest, lost, logged_in, cx);
            }
            let error = if limited {
                errors::session_limited(attempt.method(), &error)
            } else if attempt == Attempt::New {
                errors::rpc(attempt.method(), &error)
            } else {
                let stored = conversation.config.session.as_deref().unwrap_or_default();
                errors::session_refused(stored, attempt.method(), &error)
            };
            ending::fail_start(conversation, error, cx);
        }
        RpcOutcome::Result(raw) => {
            let value = results::value(raw);
            let result = results::opened(raw);
            conversation.settings.offer.opened(&value, attempt == Attempt::New);
            if attempt == Attempt::New {
                let Current { mode, model, .. } = conversation.settings.offer.current();
                conversation.settings.began = Options { mode, model, ..Options::default() };
            }
            match (attempt, results::session_id(&value)) {
                (Attempt::New, Some(id)) => {
                    applying::session_opened(
                        conversation,
                        Opened { id: id.to_owned(), attempt, lost, result },
                        cx,
                    );
                }
                (Attempt::New, None) => {
                    let error = errors::no_session_id(raw.get());
                    ending::fail_start(conversation, error, cx);
                }
                (Attempt::Resume | Attempt::Load, returned) => {
                    let stored = conversation.config.session.clone().unwrap_or_default();
                    // ACP has no id here. An agent that returns one anyway means that session.
                    let id = returned.filter(|returned| !returned.is_empty()).unwrap_or(&stored).to_owned();
                    if id != stored {
                        if conversation.config.resume_only {
                            let error = errors::other_session(&stored, attempt.method(), &id);
                            return ending::fail_start(conversation, error, cx);
                        }
                        let other = shorten::text(&id, 200);
                        lost.push(format!(
                            "{}: the agent has opened the session {other} instead",
                            attempt.method()
                        ));
                    }
                    if attempt == Attempt::Resume {
                        conversation.replay.is_running = false;
                        return applying::session_opened(
                            conversation,
                            Opened { id, attempt, lost, result },
                            cx,
                        );
                    }
                    cx.clear_timer(Timer::Phase);
                    cx.set_timer_to(Timer::Replay, REPLAY_PAUSE);
                    conversation.state = ConversationState::Replaying {
                        id,
                        looks: 0,
                        seen: conversation.replay.updates,
                        lost,
                        result,
                    };
                }
            }
        }
    }
}

pub(in crate::conversation) fn logged_in(
    conversation: &mut Conversation,
    outcome: RpcOutcome<'_>,
    cx: &mut Cx<'_>,
) {
    if let RpcOutcome::Error(error) = outcome {
        let error =
            login::auth_error(conversation, login::METHOD, &results::value(error), "start the worker again");
        return ending::fail_start(conversation, error, cx);
    }
    let ConversationState::LoggingIn(LoggingIn { mut opening, .. }) =
        std::mem::replace(&mut conversation.state, ConversationState::Starting)
    else {
        return;
    };
    opening.logged_in = true;
    open_session(conversation, opening, cx);
}

/// Ends the replay of a loaded session after a pause. Some agents continue it after their
/// response, and it must not count as output of the next turn.
pub(in crate::conversation) fn replay_paused(conversation: &mut Conversation, cx: &mut Cx<'_>) {
    let ConversationState::Replaying { id, looks, seen, lost, result } = &mut conversation.state else {
        return;
    };
    if *seen != conversation.replay.updates && *looks < MAX_REPLAY_PAUSES {
        (*looks, *seen) = (*looks + 1, conversation.replay.updates);
        return cx.set_timer_to(Timer::Replay, REPLAY_PAUSE);
    }
    let (id, lost, result) = (std::mem::take(id), std::mem::take(lost), result.take());
    applying::session_opened(conversation, Opened { id, attempt: Attempt::Load, lost, result }, cx);
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
pub(in crate::conversation) fn is_of_the_present(kind: &str) -> bool {
    matches!(kind, "available_commands" | "mode" | "usage" | "config_option" | "session_info")
}
