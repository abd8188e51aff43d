//! The agent's output: every line is a response, an update, a request or noise. No
//! line ends the conversation.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;
use subagent_protocol::record::{Noise, NoiseReason, RecordType};
use subagent_protocol::state::QuestionKind;
use subagent_protocol::{MAX_LINE_BYTES, client, update};

use super::effects::{ConversationAction, Cx};
use super::end::shutdown;
use super::requests::{approvals, calls};
use super::start::{applying, handshake};
use super::state::{Conversation, ConversationState};
use super::{children, rate_limits, turn};
use crate::acp::lines::AgentLine;
use crate::acp::message::{self, RpcMessage, RpcOutcome};
use crate::acp::outgoing::OutgoingKind;
use crate::acp::{noise, requests, results};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CancelRequest<'a> {
    #[serde(borrow)]
    request_id: &'a RawValue,
}

pub(super) fn line(conversation: &mut Conversation, line: AgentLine<'_>, cx: &mut Cx<'_>) {
    let line = match line {
        AgentLine::Whole(line) => line,
        AgentLine::TooLong { bytes, crc, head } => {
            let noise = noise::describe(NoiseReason::TooLong, bytes, crc, head);
            return record_noise(conversation, &noise, cx);
        }
    };
    // JSON is UTF-8 by definition. Invalid bytes become replacement characters.
    let text = match std::str::from_utf8(line) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => String::from_utf8_lossy(line),
    };
    // A replacement character is three times as long as the byte it replaces.
    if text.len() > MAX_LINE_BYTES {
        return record_noise(conversation, &noise::of_line(NoiseReason::TooLong, line), cx);
    }
    let text = text.trim_start_matches('\u{feff}').trim_ascii();
    if text.is_empty() {
        return;
    }
    match message::parse(text) {
        Ok(RpcMessage::Notification { method, params }) => notification(conversation, &method, params, cx),
        Ok(RpcMessage::Response { id, outcome }) => {
            if !id.is_some_and(|id| response(conversation, id, outcome, cx)) {
                record_noise(conversation, &noise::of_line(NoiseReason::UnexpectedResponse, line), cx);
            }
        }
        Ok(RpcMessage::Request { id, method, params }) => match &*method {
            "session/request_permission" => {
                approvals::asked(conversation, QuestionKind::Permission, id, params, cx)
            }
            "elicitation/create" => approvals::asked(conversation, QuestionKind::Elicitation, id, params, cx),
            method if client::kind_of(method).is_some() => {
                calls::called(conversation, id, method, params, cx)
            }
            _ => {
                let message = format!("Method not found: {}", method.chars().take(200).collect::<String>());
                cx.send(OutgoingKind::Automatic, requests::error(id, requests::METHOD_NOT_FOUND, &message));
                cx.notification(conversation.attributed_turn(), &method, params);
            }
        },
        Ok(RpcMessage::InvalidRequest) => {
            let message = "the id of a request must be a number or a string";
            cx.send(OutgoingKind::Automatic, requests::error("null", requests::INVALID_REQUEST, message));
            record_noise(conversation, &noise::of_line(NoiseReason::NotAMessage, line), cx);
        }
        Err(reason) => record_noise(conversation, &noise::of_line(reason, line), cx),
    }
}

/// Returns whether the response was expected.
fn response(conversation: &mut Conversation, id: &str, outcome: RpcOutcome<'_>, cx: &mut Cx<'_>) -> bool {
    let is = |rpc: Option<u64>| rpc.is_some_and(|rpc| message::quotes(id, rpc));
    if is(conversation.turn().map(|turn| turn.rpc)) {
        turn::prompt_answered(conversation, outcome, cx);
    } else if is(conversation.awaits_session()) {
        handshake::session_answered(conversation, outcome, cx);
    } else if is(conversation.awaits_login()) {
        handshake::logged_in(conversation, outcome, cx);
    } else if is(conversation.settings.awaits()) {
        applying::option_answered(conversation, outcome, cx);
    } else if is(conversation.awaits_close()) {
        shutdown::close_input(conversation, cx);
    } else if let ConversationState::Initializing { rpc } = conversation.state
        && is(Some(rpc))
    {
        handshake::initialized(conversation, outcome, cx);
    } else {
        return false;
    }
    true
}

fn notification(conversation: &mut Conversation, method: &str, params: Option<&RawValue>, cx: &mut Cx<'_>) {
    match (method, params) {
        ("session/update", Some(params)) => {
            let update::ClassifiedUpdate { kind, session } = update::look(params.get());
            if let Some(reset) = rate_limits::reported(params) {
                conversation.limit_resets = reset;
            }
            if kind == children::UPDATE {
                conversation.children.see(params.get());
            }
            let (t, kind) = if conversation.replay.takes(handshake::is_of_the_present(&kind)) {
                (RecordType::Update, Cow::Borrowed(update::REPLAYED))
            } else {
                // Children's tool calls too: their permission requests may
                // contain only the ids.
                conversation.tool_calls.update(&kind, params);
                if is_own(conversation, session.as_deref()) {
                    if matches!(&*kind, "mode" | "config_option") {
                        conversation.settings.offer.updated(&results::value(params)["update"]);
                    }
                    (RecordType::Update, kind)
                } else if kind == update::MESSAGE {
                    (RecordType::ChildUpdate, Cow::Borrowed(update::CHUNK))
                } else {
                    (RecordType::ChildUpdate, kind)
                }
            };
            cx.batch.push(t, conversation.attributed_turn(), Some(&kind), params);
        }
        ("$/cancel_request", Some(params)) => {
            let withdrawn = serde_json::from_str::<CancelRequest<'_>>(params.get()).is_ok_and(|request| {
                let id = request.request_id.get();
                // Tries both, since ids may collide: each of them is answered then.
                approvals::withdrawn(conversation, id, cx) | approvals::call_withdrawn(conversation, id, cx)
            });
            if !withdrawn {
                cx.notification(conversation.attributed_turn(), method, Some(params));
            }
        }
        _ => cx.notification(conversation.attributed_turn(), method, params),
    }
}

/// Whether an update belongs to the worker's session. While no session is known, every update
/// may; so may one without a session id.
fn is_own(conversation: &Conversation, session: Option<&str>) -> bool {
    session.is_none_or(|session| conversation.own_session().is_none_or(|own| own == session))
}

fn record_noise(conversation: &mut Conversation, noise: &Noise, cx: &mut Cx<'_>) {
    if conversation.is_starting() && conversation.first_noise.is_none() {
        conversation.first_noise = Some(noise.head.clone());
    }
    // Some agents print the reason for their end here.
    cx.push(ConversationAction::Stdout(noise.head.clone()));
    cx.record(RecordType::Noise, conversation.attributed_turn(), noise);
}
