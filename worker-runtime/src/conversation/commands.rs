//! Commands of the daemon: accepted and recorded, or refused with a reason.

use subagent_protocol::frame::{Refusal, RuntimeCommand};

use super::effects::{Cx, ReplyTo, Storage, Timer};
use super::end::ending;
use super::requests::approvals;
use super::start::applying;
use super::state::{CancelCause, Conversation, ConversationState};
use super::turn::PromptParts;
use super::{turn, turn_end};
use crate::acp::outgoing::OutgoingKind;
use crate::acp::requests;

pub(super) fn command(
    conversation: &mut Conversation,
    to: ReplyTo,
    command: RuntimeCommand,
    cx: &mut Cx<'_>,
) {
    if let RuntimeCommand::Terminate { reason } = command {
        ending::begin_end(conversation, &reason, cx);
        return cx.reply(to, Ok(()));
    }
    let answers = matches!(command, RuntimeCommand::Answer { .. } | RuntimeCommand::AnswerElicitation { .. });
    if answers && conversation.storage == Storage::Full {
        // Applies while ending too: the command may repeat an accepted one whose record
        // is not written yet.
        return cx.reply(to, Err(Refusal::StorageFull));
    }
    if matches!(conversation.state, ConversationState::Ending(_) | ConversationState::Ended) {
        let refusal = match command {
            // Accepted, but perhaps not recorded yet. `Ending` would mean that
            // it was not accepted.
            RuntimeCommand::Prompt { turn, .. } if turn <= conversation.turns.last => {
                Refusal::WrongTurn { last: conversation.turns.last }
            }
            _ => Refusal::Ending,
        };
        return cx.reply(to, Err(refusal));
    }
    match command {
        RuntimeCommand::Prompt { turn, turn_id, prompt, attachments, change } => {
            let (prompt, attachments, change) = (&prompt, &attachments, change.as_deref());
            let given = PromptParts { turn, turn_id, prompt, attachments, change };
            match turn::prompt(conversation, to.connection, given, cx) {
                Ok(line) => {
                    cx.reply(to, Ok(()));
                    match line {
                        Some(line) => turn_end::send_prompt(line, cx),
                        None => applying::next_setting(conversation, cx),
                    }
                }
                Err(refusal) => cx.reply(to, Err(refusal)),
            }
        }
        RuntimeCommand::Cancel { turn, reason } => match turn::cancel(conversation, turn, reason, cx) {
            Ok(first) => {
                cx.reply(to, Ok(()));
                if first {
                    turn::cancel_turn_for(conversation, CancelCause::Requested, cx);
                    if conversation.open_turn().is_some() {
                        cx.set_timer(Timer::CancelGrace, conversation.config.timeouts.cancel_grace_ms);
                    }
                }
            }
            Err(refusal) => cx.reply(to, Err(refusal)),
        },
        RuntimeCommand::Answer { request_id, option_id, rule } => {
            let answer =
                approvals::answer(conversation, &request_id, option_id.as_deref(), rule.as_deref(), cx);
            cx.reply(to, answer);
        }
        RuntimeCommand::SetOptions { request, options } => {
            let taken = applying::set_options(conversation, &request, &options);
            let is_taken = taken.is_ok();
            cx.reply(to, taken);
            if is_taken {
                applying::next_setting(conversation, cx);
            }
        }
        RuntimeCommand::AnswerElicitation { request_id, action, content } => {
            let content = content.as_ref().map(|content| &content.0);
            let answer = approvals::answer_elicitation(conversation, &request_id, action, content, cx);
            cx.reply(to, answer);
        }
        RuntimeCommand::CancelChild { session_id } => {
            if !conversation.children.takes_cancel(&session_id) {
                return cx.reply(to, Err(Refusal::NoSuchSession));
            }
            cx.send(OutgoingKind::Plain, requests::cancel(&session_id));
            cx.reply(to, Ok(()));
        }
        RuntimeCommand::Hibernate { last_turn, reason } => match may_hibernate(conversation, last_turn) {
            Ok(()) => {
                cx.reply(to, Ok(()));
                ending::begin_end(conversation, &reason, cx);
            }
            Err(refusal) => cx.reply(to, Err(refusal)),
        },
        RuntimeCommand::Terminate { .. } => {}
    }
}

/// Whether the session can restore everything that ends with the agent.
fn may_hibernate(conversation: &Conversation, last_turn: u64) -> Result<(), Refusal> {
    let ConversationState::Ready { turn, .. } = &conversation.state else { return Err(Refusal::NotReady) };
    if conversation.turns.last > last_turn {
        return Err(Refusal::WrongTurn { last: conversation.turns.last });
    }
    if conversation.storage == Storage::Full {
        return Err(Refusal::StorageFull);
    }
    if turn.is_some() || !conversation.is_quiet() {
        return Err(Refusal::Busy);
    }
    Ok(())
}
