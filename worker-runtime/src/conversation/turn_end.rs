//! The end of a turn, which is recorded exactly once.

use subagent_protocol::Error;
use subagent_protocol::record::{RecordType, TurnEnd, TurnEndBody};

use super::effects::{ConversationAction, Cx, Timer};
use super::end::shutdown;
use super::requests::approvals;
use super::state::Conversation;
use crate::acp::outgoing::OutgoingKind;

/// Records the end of the open turn, if there is one.
pub(super) fn end_turn(conversation: &mut Conversation, end: &TurnEnd, cx: &mut Cx<'_>) {
    end_turn_with(conversation, &TurnEndBody { end, answer: None }, cx);
}

pub(super) fn end_turn_with(conversation: &mut Conversation, body: &TurnEndBody<'_>, cx: &mut Cx<'_>) {
    let Some(turn) = conversation.take_turn() else { return };
    approvals::close_of_turn(conversation, turn.number, cx);
    cx.record(RecordType::TurnEnd, Some(turn.number), body);
    cx.clear_timer(Timer::Turn);
    cx.clear_timer(Timer::CancelGrace);
    cx.clear_timer(Timer::Phase);
    cx.push(ConversationAction::DropPrompt);
    conversation.turns.late = turn.cancel.is_some().then_some(turn.number);
}

/// The definition's options are set: sends the prompt that was held.
pub(super) fn release_prompt(conversation: &mut Conversation, cx: &mut Cx<'_>) {
    if let Some(line) = conversation.turn_mut().and_then(|turn| turn.held.take()) {
        send_prompt(line, cx);
    }
}

/// The held prompt is not sent; `error` ends its turn.
pub(super) fn give_up_prompt(conversation: &mut Conversation, error: Error, cx: &mut Cx<'_>) {
    if conversation.turn_mut().and_then(|turn| turn.held.take()).is_some() {
        end_turn(conversation, &TurnEnd::Failed { error: error.with("dispatched", "no") }, cx);
        shutdown::turn_is_over(conversation, cx);
    }
}

/// Sends the prompt. Separate from [`super::turn::prompt`], so that the reply goes out first.
pub(super) fn send_prompt(line: Vec<u8>, cx: &mut Cx<'_>) {
    cx.send(OutgoingKind::Prompt, line);
}
