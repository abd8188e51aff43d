//! The agent's output: every line is a response, an update, a request or noise. No
//! line ends the conversation.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;
use subagent_protocol::record::{Noise, NoiseReason, Notification, RecordType};
use subagent_protocol::state::QuestionKind;
use subagent_protocol::{MAX_LINE_BYTES, client, update};

use super::{Conversation, ConversationAction, ConversationState, Cx, children, handshake, rate_limits};
use crate::acp::lines::AgentLine;
use crate::acp::message::{self, RpcMessage, RpcOutcome};
use crate::acp::outgoing::OutgoingKind;
use crate::acp::{noise, requests};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CancelRequest<'a> {
    #[serde(borrow)]
    request_id: &'a RawValue,
}

impl Conversation {
    pub(super) fn line(&mut self, line: AgentLine<'_>, cx: &mut Cx<'_>) {
        let line = match line {
            AgentLine::Whole(line) => line,
            AgentLine::TooLong { bytes, crc, head } => {
                let noise = noise::describe(NoiseReason::TooLong, bytes, crc, head);
                return self.noise(&noise, cx);
            }
        };
        // JSON is UTF-8 by definition. Invalid bytes become replacement characters.
        let text = match std::str::from_utf8(line) {
            Ok(text) => Cow::Borrowed(text),
            Err(_) => String::from_utf8_lossy(line),
        };
        // A replacement character is three times as long as the byte it replaces.
        if text.len() > MAX_LINE_BYTES {
            return self.noise(&noise::of_line(NoiseReason::TooLong, line), cx);
        }
        let text = text.trim_start_matches('\u{feff}').trim_ascii();
        if text.is_empty() {
            return;
        }
        match message::parse(text) {
            Ok(RpcMessage::Notification { method, params }) => self.notification(&method, params, cx),
            Ok(RpcMessage::Response { id, outcome }) => {
                if !id.is_some_and(|id| self.response(id, outcome, cx)) {
                    self.noise(&noise::of_line(NoiseReason::UnexpectedResponse, line), cx);
                }
            }
            Ok(RpcMessage::Request { id, method, params }) => match &*method {
                "session/request_permission" => self.asked(QuestionKind::Permission, id, params, cx),
                "elicitation/create" => self.asked(QuestionKind::Elicitation, id, params, cx),
                method if client::kind_of(method).is_some() => self.called(id, method, params, cx),
                _ => {
                    let message =
                        format!("Method not found: {}", method.chars().take(200).collect::<String>());
                    cx.send(
                        OutgoingKind::Automatic,
                        requests::error(id, requests::METHOD_NOT_FOUND, &message),
                    );
                    self.notified(&method, params, cx);
                }
            },
            Ok(RpcMessage::InvalidRequest) => {
                let message = "the id of a request must be a number or a string";
                cx.send(OutgoingKind::Automatic, requests::error("null", requests::INVALID_REQUEST, message));
                self.noise(&noise::of_line(NoiseReason::NotAMessage, line), cx);
            }
            Err(reason) => self.noise(&noise::of_line(reason, line), cx),
        }
    }

    /// Returns whether the response was expected.
    fn response(&mut self, id: &str, outcome: RpcOutcome<'_>, cx: &mut Cx<'_>) -> bool {
        let is = |rpc: Option<u64>| rpc.is_some_and(|rpc| message::quotes(id, rpc));
        if is(self.turn().map(|turn| turn.rpc)) {
            self.prompt_answered(outcome, cx);
        } else if is(self.awaits_session()) {
            self.session_answered(outcome, cx);
        } else if is(self.awaits_login()) {
            self.logged_in(outcome, cx);
        } else if is(self.awaits_option()) {
            self.option_answered(outcome, cx);
        } else if is(self.awaits_close()) {
            self.session_closed(cx);
        } else if let ConversationState::Initializing { rpc } = self.state
            && is(Some(rpc))
        {
            self.initialized(outcome, cx);
        } else {
            return false;
        }
        true
    }

    fn notification(&mut self, method: &str, params: Option<&RawValue>, cx: &mut Cx<'_>) {
        match (method, params) {
            ("session/update", Some(params)) => {
                let update::ClassifiedUpdate { kind, session } = update::look(params.get());
                if let Some(reset) = rate_limits::reported(params) {
                    self.limit_resets = reset;
                }
                if kind == children::UPDATE {
                    self.children.see(params.get());
                }
                let (t, kind) = if self.replaying && !handshake::is_of_the_present(&kind) {
                    self.replayed += 1;
                    (RecordType::Update, Cow::Borrowed(update::REPLAYED))
                } else {
                    // Children's tool calls too: their permission requests may
                    // contain only the ids.
                    self.tool_calls.update(&kind, params);
                    if self.is_own(session.as_deref()) {
                        if matches!(&*kind, "mode" | "config_option") {
                            self.option_updated(params);
                        }
                        (RecordType::Update, kind)
                    } else if kind == update::MESSAGE {
                        (RecordType::ChildUpdate, Cow::Borrowed(update::CHUNK))
                    } else {
                        (RecordType::ChildUpdate, kind)
                    }
                };
                cx.batch.push(t, self.attributed_turn(), Some(&kind), params);
            }
            ("$/cancel_request", Some(params)) => {
                let withdrawn =
                    serde_json::from_str::<CancelRequest<'_>>(params.get()).is_ok_and(|request| {
                        let id = request.request_id.get();
                        // Tries both, since ids may collide: each of them is answered then.
                        self.withdrawn(id, cx) | self.call_withdrawn(id, cx)
                    });
                if !withdrawn {
                    self.notified(method, Some(params), cx);
                }
            }
            _ => self.notified(method, params, cx),
        }
    }

    /// Whether an update belongs to the worker's session. While no session is known, every update
    /// may; so may one without a session id.
    fn is_own(&self, session: Option<&str>) -> bool {
        session.is_none_or(|session| self.own_session().is_none_or(|own| own == session))
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

    /// Keeps a notification, or an unknown request, verbatim.
    pub(super) fn notified(&mut self, method: &str, params: Option<&RawValue>, cx: &mut Cx<'_>) {
        let body = Notification { method: method.to_owned(), params: params.map(ToOwned::to_owned) };
        cx.record(RecordType::Notification, self.attributed_turn(), &body);
    }

    fn noise(&mut self, noise: &Noise, cx: &mut Cx<'_>) {
        if self.is_starting() && self.first_noise.is_none() {
            self.first_noise = Some(noise.head.clone());
        }
        // Some agents print the reason for their end here.
        cx.push(ConversationAction::Stdout(noise.head.clone()));
        cx.record(RecordType::Noise, self.attributed_turn(), noise);
    }

    /// Returns the turn that progress belongs to: the open one, or a canceled one
    /// that still produces output.
    pub(super) fn attributed_turn(&self) -> Option<u64> {
        self.open_turn().or(self.late_turn)
    }
}
