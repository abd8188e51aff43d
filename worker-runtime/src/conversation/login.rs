//! Agents that require a login. Tries the launcher's login method once, if the agent can run it
//! alone. Otherwise an error tells the user what to do. Must not answer questions meant for a user,
//! nor send a prompt twice.

use serde_json::Value;
use serde_json::value::RawValue;
use subagent_protocol::ask::LoginKind;
use subagent_protocol::error::Error;
use subagent_protocol::record::{TurnEnd, TurnEndBody};

use super::handshake::Opening;
use super::{Conversation, ConversationState, Cx, Timer, errors};
use crate::acp::message::RpcOutcome;
use crate::acp::outgoing::OutgoingKind;
use crate::acp::{requests, results};

/// The ACP request that runs a login method.
const METHOD: &str = "authenticate";
/// Why an agent is ended that finds a new login only at its start.
const ENDED: &str = "the agent wants a login";

/// A login before the session. The agent requires it first.
pub(super) struct LoggingIn {
    pub(super) rpc: u64,
    /// The session request to repeat after the login.
    opening: Opening,
}

/// A login during a turn: the agent rejected the prompt, and the turn waits for the login.
pub(super) struct TurnLogin {
    /// The error of the prompt, from the agent's response.
    error: Error,
    answer: Option<Box<RawValue>>,
}

impl Conversation {
    /// The error for a rejected request; `again` is what to do after the login.
    fn auth_error(&self, method: &str, error: &Value, again: &str) -> Error {
        let offered = self.agent.as_ref().map(|agent| agent.auth_methods.as_slice()).unwrap_or_default();
        errors::auth_required(method, error, offered, &self.config.login, again)
    }

    /// Whether the agent offers any login method.
    pub(super) fn offers_login(&self) -> bool {
        self.agent.as_ref().is_some_and(|agent| !agent.auth_methods.is_empty())
    }

    /// Returns the launcher's login method, if this agent can run it alone.
    fn way_to_log_in(&self) -> Option<String> {
        let named = self.config.login.method.as_ref()?;
        let mut offered = self.agent.as_ref()?.auth_methods.iter();
        offered.any(|(id, kind)| id == named && *kind == Some(LoginKind::Agent)).then(|| named.clone())
    }

    /// A session request failed for lack of a login. Tries no other attempt: a new session would
    /// fail as well, or lose the content of the stored one.
    pub(super) fn session_wants_login(&mut self, opening: Opening, error: &Value, cx: &mut Cx<'_>) {
        match self.way_to_log_in() {
            Some(way) if !opening.logged_in => {
                let rpc = self.rpc();
                cx.send(OutgoingKind::Plain, requests::authenticate(rpc, &way));
                self.state = ConversationState::LoggingIn(LoggingIn { rpc, opening });
                match self.config.timeouts.session_ms {
                    Some(millis) => cx.set_timer(Timer::Phase, millis),
                    None => cx.clear_timer(Timer::Phase),
                }
            }
            _ => {
                let error = self.auth_error(opening.attempt.method(), error, "start the worker again");
                self.fail_start(error, cx);
            }
        }
    }

    /// Returns the id of the pending login request.
    pub(super) fn awaits_login(&self) -> Option<u64> {
        match &self.state {
            ConversationState::LoggingIn(login) => Some(login.rpc),
            _ => None,
        }
    }

    pub(super) fn logged_in(&mut self, outcome: RpcOutcome<'_>, cx: &mut Cx<'_>) {
        if let RpcOutcome::Error(error) = outcome {
            let error = self.auth_error(METHOD, &results::value(error), "start the worker again");
            return self.fail_start(error, cx);
        }
        let ConversationState::LoggingIn(LoggingIn { mut opening, .. }) =
            std::mem::replace(&mut self.state, ConversationState::Starting)
        else {
            return;
        };
        opening.logged_in = true;
        self.open_session(opening, cx);
    }

    /// A prompt was rejected for lack of a login. It is not sent again; the client that sent it
    /// has to do that.
    pub(super) fn prompt_wants_login(
        &mut self,
        error: &Value,
        answer: Option<Box<RawValue>>,
        cx: &mut Cx<'_>,
    ) {
        let error = self.auth_error("session/prompt", error, "send the message again");
        let wanted =
            matches!(&self.state, ConversationState::Ready { turn: Some(turn), .. } if turn.cancel.is_none());
        match self.way_to_log_in() {
            Some(way) if wanted => {
                let rpc = self.rpc();
                let millis = self.config.timeouts.session_ms.unwrap_or(self.config.timeouts.startup_ms);
                if let Some(turn) = self.turn_mut() {
                    (turn.rpc, turn.login) = (rpc, Some(TurnLogin { error, answer }));
                }
                cx.send(OutgoingKind::Plain, requests::authenticate(rpc, &way));
                cx.set_timer(Timer::Phase, millis);
            }
            _ => self.end_refused_turn(TurnLogin { error, answer }, cx),
        }
    }

    /// Takes the login that the open turn waits for, and stops waiting for it.
    pub(super) fn take_login(&mut self) -> Option<TurnLogin> {
        self.turn_mut()?.login.take()
    }

    pub(super) fn turn_login_answered(
        &mut self,
        TurnLogin { error, answer }: TurnLogin,
        outcome: &RpcOutcome<'_>,
        cx: &mut Cx<'_>,
    ) {
        cx.clear_timer(Timer::Phase);
        match outcome {
            RpcOutcome::Result(_) => {
                let error = errors::logged_in(error);
                self.write_refused_turn(&TurnLogin { error, answer }, cx);
                self.turn_is_over(cx);
            }
            RpcOutcome::Error(refused) => {
                let error = error.with("login", results::error_text(&results::value(refused)));
                self.end_refused_turn(TurnLogin { error, answer }, cx);
            }
        }
    }

    /// The login got no response in time, or is no longer needed.
    pub(super) fn give_up_turn_login(&mut self, cx: &mut Cx<'_>) {
        let rpc = self.turn().map(|turn| turn.rpc);
        let Some(login) = self.take_login() else { return };
        cx.clear_timer(Timer::Phase);
        if let Some(rpc) = rpc {
            cx.send(OutgoingKind::Plain, requests::cancel_request(rpc));
        }
        self.end_refused_turn(login, cx);
    }

    /// Ends a turn whose prompt was rejected. Agents often notice an external login only at
    /// their start. The agent is therefore ended, if that loses nothing, and the next
    /// message starts it again.
    fn end_refused_turn(&mut self, refused: TurnLogin, cx: &mut Cx<'_>) {
        let canceled = self.turn().is_some_and(|turn| turn.cancel.is_some());
        self.write_refused_turn(&refused, cx);
        self.turn_is_over(cx);
        let restores = self
            .agent
            .as_ref()
            .is_some_and(|agent| agent.capabilities.resume || agent.capabilities.load == Some(true));
        if restores && !canceled && self.is_quiet() && matches!(self.state, ConversationState::Ready { .. }) {
            self.begin_end(ENDED, cx);
        }
    }

    fn write_refused_turn(&mut self, TurnLogin { error, answer }: &TurnLogin, cx: &mut Cx<'_>) {
        let end = TurnEnd::Failed { error: error.clone() };
        self.end_turn_with(&TurnEndBody { end: &end, answer: answer.as_deref() }, cx);
    }
}
