//! A turn: one prompt and everything until its end.

use serde::Deserialize;
use serde_json::Value;
use subagent_protocol::attachment::Attachment;
use subagent_protocol::frame::{DefinitionChange, Refusal};
use subagent_protocol::ids::TurnId;
use subagent_protocol::lenient::{self, Lenient};
use subagent_protocol::record::{
    ApprovalClosedReason, CancelRequested, Dispatching, RecordType, TurnEnd, TurnEndBody,
};

use super::effects::{Cx, Storage, Timer};
use super::end::{ending, shutdown};
use super::requests::{approvals, calls};
use super::start::{definition, login};
use super::state::{CancelCause, Conversation, ConversationState, OpenTurn};
use super::{errors, turn_end};
use crate::acp::message::RpcOutcome;
use crate::acp::{attachments, requests, results};

/// The parts of a prompt.
pub(super) struct PromptParts<'a> {
    pub(super) turn: u64,
    pub(super) turn_id: TurnId,
    pub(super) prompt: &'a [Value],
    pub(super) attachments: &'a [Attachment],
    pub(super) change: Option<&'a DefinitionChange>,
}

/// Accepts a prompt and returns its line. Returns `None` if the prompt is held
/// until options are set.
pub(super) fn prompt(
    conversation: &mut Conversation,
    connection: u64,
    given: PromptParts<'_>,
    cx: &mut Cx<'_>,
) -> Result<Option<Vec<u8>>, Refusal> {
    let PromptParts { turn: number, turn_id, prompt, attachments, change } = given;
    let (last, full) = (conversation.turns.last, conversation.storage == Storage::Full);
    let rpc = conversation.next_rpc + 1;
    let takes = conversation.agent.as_ref().map(|agent| agent.capabilities.prompt).unwrap_or_default();
    let ConversationState::Ready { session, turn } = &conversation.state else {
        return Err(Refusal::NotReady);
    };
    // Gaps are allowed: turns that were canceled before they were sent never arrive.
    if number <= last {
        return Err(Refusal::WrongTurn { last });
    }
    if turn.is_some() {
        return Err(Refusal::Busy);
    }
    if full || conversation.turns.has_refused(connection, number) {
        conversation.turns.refuse(connection, number);
        return Err(Refusal::StorageFull);
    }
    let attached = attachments::blocks(attachments, takes)
        .map_err(|error| Refusal::NotSupported { error: Box::new(error) })?;
    let session = session.id.clone();
    let waits = change.is_some_and(|change| definition::take_change(conversation, change));
    let instructions = definition::block(&conversation.config.context);
    let line = requests::prompt(rpc, &session, instructions.as_ref(), prompt, &attached);
    let (line, held) = if waits { (None, Some(line)) } else { (Some(line), None) };
    if let ConversationState::Ready { turn, .. } = &mut conversation.state {
        *turn = Some(OpenTurn { number, rpc, cancel: None, held, login: None });
    }
    conversation.next_rpc = rpc;
    conversation.turns.accept(number);
    conversation.replay.is_running = false;
    conversation.tool_calls.close_all();
    cx.record(RecordType::Dispatching, Some(number), &Dispatching { turn_id });
    if let Some(millis) = conversation.config.timeouts.turn_ms {
        cx.set_timer(Timer::Turn, millis);
    }
    Ok(line)
}

pub(super) fn cancel(
    conversation: &mut Conversation,
    number: u64,
    reason: String,
    cx: &mut Cx<'_>,
) -> Result<bool, Refusal> {
    let Some(turn) = conversation.turn().filter(|turn| turn.number == number) else {
        return Err(Refusal::NoSuchTurn);
    };
    if turn.cancel == Some(CancelCause::Requested) {
        // The agent was asked already; the daemon repeats the command because
        // our reply was lost.
        return Ok(false);
    }
    if conversation.storage == Storage::Full {
        calls::shed(conversation, cx);
    }
    cx.record(RecordType::CancelRequested, Some(number), &CancelRequested { reason });
    Ok(true)
}

pub(super) fn cancel_turn_for(conversation: &mut Conversation, cause: CancelCause, cx: &mut Cx<'_>) {
    if let Some(turn) = conversation.turn_mut() {
        turn.cancel = Some(cause);
    }
    approvals::cancel_at_agent(conversation, ApprovalClosedReason::TurnCanceled, cx);
    login::give_up_turn_login(conversation, cx);
    turn_end::give_up_prompt(conversation, errors::never_sent(), cx);
}

/// The result of `session/prompt`.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PromptResult {
    stop_reason: Lenient<String>,
    usage: Value,
    #[serde(rename = "_meta")]
    meta: Value,
}

/// The agent answered `session/prompt`.
pub(super) fn prompt_answered(conversation: &mut Conversation, outcome: RpcOutcome<'_>, cx: &mut Cx<'_>) {
    let cancel = conversation.turn().and_then(|turn| turn.cancel);
    if let Some(login) = login::take_login(conversation) {
        return login::turn_login_answered(conversation, login, &outcome, cx);
    }
    let (RpcOutcome::Result(raw) | RpcOutcome::Error(raw)) = &outcome;
    let answer = results::answer(raw).map(ToOwned::to_owned);
    let end = match (cancel, outcome) {
        (Some(CancelCause::Timeout), _) => {
            TurnEnd::Failed { error: errors::turn_timeout(turn_limit_seconds(conversation)) }
        }
        (_, RpcOutcome::Result(raw)) => {
            let PromptResult { stop_reason, usage, meta } = lenient::take(results::value(raw));
            definition::instructions_kept(&mut conversation.config.context, stop_reason.0.as_deref());
            let (usage, meta) = (results::aside(&usage), results::aside(&meta));
            TurnEnd::Answered { stop_reason: stop_reason.0, usage, meta }
        }
        (_, RpcOutcome::Error(error)) => {
            let error = results::value(error);
            if results::error_code(&error) == Some(requests::AUTH_REQUIRED) {
                return login::prompt_wants_login(conversation, &error, answer, cx);
            }
            TurnEnd::Failed { error: errors::prompt_rejected(&error, conversation.limit_resets) }
        }
    };
    turn_end::end_turn_with(conversation, &TurnEndBody { end: &end, answer: answer.as_deref() }, cx);
    shutdown::turn_is_over(conversation, cx);
}

pub(super) fn turn_timeout(conversation: &mut Conversation, cx: &mut Cx<'_>) {
    if conversation.turn().is_some_and(|turn| turn.cancel.is_none()) {
        cancel_turn_for(conversation, CancelCause::Timeout, cx);
        cx.set_timer(Timer::CancelGrace, conversation.config.timeouts.cancel_grace_ms);
    }
}

pub(super) fn cancel_ignored(conversation: &mut Conversation, cx: &mut Cx<'_>) {
    let error = match conversation.turn().and_then(|turn| turn.cancel) {
        Some(CancelCause::Timeout) => errors::turn_timeout(turn_limit_seconds(conversation)),
        Some(CancelCause::Requested) => {
            errors::cancel_ignored(conversation.config.timeouts.cancel_grace_ms as f64 / 1000.0)
        }
        // While the runtime ends, its steps have their own timer.
        Some(CancelCause::Stopping) | None => return,
    };
    turn_end::end_turn(conversation, &TurnEnd::Failed { error }, cx);
    ending::end_unresponsive(conversation, "the agent ignored session/cancel", cx);
}

fn turn_limit_seconds(conversation: &Conversation) -> f64 {
    conversation.config.timeouts.turn_ms.unwrap_or_default() as f64 / 1000.0
}
