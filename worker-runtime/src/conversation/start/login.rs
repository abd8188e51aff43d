//! Agents that require a login. Tries the launcher's login method once, if the agent can run it
//! alone. Otherwise an error tells the user what to do. Must not answer questions meant for a user,
//! nor send a prompt twice.

use serde_json::Value;
use serde_json::value::RawValue;
use subagent_protocol::ask::LoginKind;
use subagent_protocol::error::Error;
use subagent_protocol::record::{TurnEnd, TurnEndBody};

use crate::acp::message::RpcOutcome;
use crate::acp::outgoing::OutgoingKind;
use crate::acp::{requests, results};
use crate::conversation::effects::{Cx, Timer};
use crate::conversation::end::{ending, shutdown};
use crate::conversation::state::{Conversation, ConversationState, LoggingIn, Opening, TurnLogin};
use crate::conversation::{errors, turn_end};

/// The ACP request that runs a login method.
pub(in crate::conversation) const METHOD: &str = "authenticate";
/// Why an agent is ended that finds a new login only at its start.
const ENDED: &str = "the agent wants a login";

/// The error for a rejected request; `again` is what to do after the login.
pub(in crate::conversation) fn auth_error(
    conversation: &Conversation,
    method: &str,
    error: &Value,
    again: &str,
) -> Error {
    let offered = conversation.agent.as_ref().map(|agent| agent.auth_methods.as_slice()).unwrap_or_default();
    errors::auth_required(method, error, offered, &conversation.config.login, again)
}

/// Whether the agent offers any login method.
pub(in crate::conversation) fn offers_login(conversation: &Conversation) -> bool {
    conversation.agent.as_ref().is_some_and(|agent| !agent.auth_methods.is_empty())
}

/// Returns the launcher's login method, if this agent can run it alone.
fn way_to_log_in(conversation: &Conversation) -> Option<String> {
    let named = conversation.config.login.method.as_ref()?;
    let mut offered = conversation.agent.as_ref()?.auth_methods.iter();
    offered.any(|(id, kind)| id == named && *kind == Some(LoginKind::Agent)).then(|| named.clone())
}

/// A session request failed for lack of a login. Tries no other attempt: a new session would
/// fail as well, or lose the content of the stored one.
pub(in crate::conversation) fn session_wants_login(
    conversation: &mut Conversation,
    opening: Opening,
    error: &Value,
    cx: &mut Cx<'_>,
) {
    match way_to_log_in(conversation) {
        Some(way) if !opening.logged_in => {
            let rpc = conversation.rpc();
            cx.send(OutgoingKind::Plain, requests::authenticate(rpc, &way));
            conversation.state = ConversationState::LoggingIn(LoggingIn { rpc, opening });
            match conversation.config.timeouts.session_ms {
                Some(millis) => cx.set_timer(Timer::Phase, millis),
                None => cx.clear_timer(Timer::Phase),
            }
        }
        _ => {
            let error = auth_error(conversation, opening.attempt.method(), error, "start the worker again");
            ending::fail_start(conversation, error, cx);
        }
    }
}

/// A prompt was rejected for lack of a login. It is not sent again; the client that sent it
/// has to do that.
pub(in crate::conversation) fn prompt_wants_login(
    conversation: &mut Conversation,
    error: &Value,
    answer: Option<Box<RawValue>>,
    cx: &mut Cx<'_>,
) {
    let error = auth_error(conversation, "session/prompt", error, "send the message again");
    let wanted = matches!(&conversation.state, ConversationState::Ready { turn: Some(turn), .. } if turn.cancel.is_none());
    match way_to_log_in(conversation) {
        Some(way) if wanted => {
            let rpc = conversation.rpc();
            let millis =
                conversation.config.timeouts.session_ms.unwrap_or(conversation.config.timeouts.startup_ms);
            if let Some(turn) = conversation.turn_mut() {
                (turn.rpc, turn.login) = (rpc, Some(TurnLogin { error, answer }));
            }
            cx.send(OutgoingKind::Plain, requests::authenticate(rpc, &way));
            cx.set_timer(Timer::Phase, millis);
        }
        _ => end_refused_turn(conversation, TurnLogin { error, answer }, cx),
    }
}

/// Takes the login that the open turn waits for, and stops waiting for it.
pub(in crate::conversation) fn take_login(conversation: &mut Conversation) -> Option<TurnLogin> {
    conversation.turn_mut()?.login.take()
}

pub(in crate::conversation) fn turn_login_answered(
    conversation: &mut Conversation,
    TurnLogin { error, answer }: TurnLogin,
    outcome: &RpcOutcome<'_>,
    cx: &mut Cx<'_>,
) {
    cx.clear_timer(Timer::Phase);
    match outcome {
        RpcOutcome::Result(_) => {
            let error = errors::logged_in(error);
            write_refused_turn(conversation, &TurnLogin { error, answer }, cx);
            shutdown::turn_is_over(conversation, cx);
        }
        RpcOutcome::Error(refused) => {
            let error = error.with("login", results::error_text(&results::value(refused)));
            end_refused_turn(conversation, TurnLogin { error, answer }, cx);
        }
    }
}

/// The login got no response in time, or is no longer needed.
pub(in crate::conversation) fn give_up_turn_login(conversation: &mut Conversation, cx: &mut Cx<'_>) {
    let rpc = conversation.turn().map(|turn| turn.rpc);
    let Some(login) = take_login(conversation) else { return };
    cx.clear_timer(Timer::Phase);
    if let Some(rpc) = rpc {
        cx.send(OutgoingKind::Plain, requests::cancel_request(rpc));
    }
    end_refused_turn(conversation, login, cx);
}

/// Ends a turn whose prompt was rejected. Agents often notice an external login only at
/// their start. The agent is therefore ended, if that loses nothing, and the next
/// message starts it again.
fn end_refused_turn(conversation: &mut Conversation, refused: TurnLogin, cx: &mut Cx<'_>) {
    let canceled = conversation.turn().is_some_and(|turn| turn.cancel.is_some());
    write_refused_turn(conversation, &refused, cx);
    shutdown::turn_is_over(conversation, cx);
    let restores = conversation
        .agent
        .as_ref()
        .is_some_and(|agent| agent.capabilities.resume || agent.capabilities.load == Some(true));
    if restores
        && !canceled
        && conversation.is_quiet()
        && matches!(conversation.state, ConversationState::Ready { .. })
    {
        ending::begin_end(conversation, ENDED, cx);
    }
}

fn write_refused_turn(
    conversation: &mut Conversation,
    TurnLogin { error, answer }: &TurnLogin,
    cx: &mut Cx<'_>,
) {
    let end = TurnEnd::Failed { error: error.clone() };
    turn_end::end_turn_with(conversation, &TurnEndBody { end: &end, answer: answer.as_deref() }, cx);
}
