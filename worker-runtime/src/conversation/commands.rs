//! Commands of the daemon: accepted and recorded, or refused with a reason.

use subagent_protocol::frame::{Refusal, RuntimeCommand};

use super::turn::{CancelCause, PromptParts};
use super::{Conversation, ConversationState, Cx, ReplyTo, Storage, Timer};
use crate::acp::outgoing::OutgoingKind;
use crate::acp::requests;

impl Conversation {
    pub(super) fn command(&mut self, to: ReplyTo, command: RuntimeCommand, cx: &mut Cx<'_>) {
        if let RuntimeCommand::Terminate { reason } = command {
            self.begin_end(&reason, cx);
            return cx.reply(to, Ok(()));
        }
        let answers =
            matches!(command, RuntimeCommand::Answer { .. } | RuntimeCommand::AnswerElicitation { .. });
        if answers && self.storage == Storage::Full {
            // Applies while ending too: the command may repeat an accepted one whose record
            // is not written yet.
            return cx.reply(to, Err(Refusal::StorageFull));
        }
        if matches!(self.state, ConversationState::Ending(_) | ConversationState::Ended) {
            let refusal = match command {
                // Accepted, but perhaps not recorded yet. `Ending` would mean that
                // it was not accepted.
                RuntimeCommand::Prompt { turn, .. } if turn <= self.last_turn => {
                    Refusal::WrongTurn { last: self.last_turn }
                }
                _ => Refusal::Ending,
            };
            return cx.reply(to, Err(refusal));
        }
        match command {
            RuntimeCommand::Prompt { turn, turn_id, prompt, attachments, change } => {
                let (prompt, attachments, change) = (&prompt, &attachments, change.as_deref());
                let given = PromptParts { turn, turn_id, prompt, attachments, change };
                match self.prompt(to.connection, given, cx) {
                    Ok(line) => {
                        cx.reply(to, Ok(()));
                        match line {
                            Some(line) => Self::send_prompt(line, cx),
                            None => self.next_setting(cx),
                        }
                    }
                    Err(refusal) => cx.reply(to, Err(refusal)),
                }
            }
            RuntimeCommand::Cancel { turn, reason } => match self.cancel(turn, reason, cx) {
                Ok(first) => {
                    cx.reply(to, Ok(()));
                    if first {
                        self.cancel_turn_for(CancelCause::Requested, cx);
                        if self.open_turn().is_some() {
                            cx.set_timer(Timer::CancelGrace, self.config.timeouts.cancel_grace_ms);
                        }
                    }
                }
                Err(refusal) => cx.reply(to, Err(refusal)),
            },
            RuntimeCommand::Answer { request_id, option_id, rule } => {
                let answer = self.answer(&request_id, option_id.as_deref(), rule.as_deref(), cx);
                cx.reply(to, answer);
            }
            RuntimeCommand::SetOptions { request, options } => {
                let taken = self.set_options(&request, &options);
                let is_taken = taken.is_ok();
                cx.reply(to, taken);
                if is_taken {
                    self.next_setting(cx);
                }
            }
            RuntimeCommand::AnswerElicitation { request_id, action, content } => {
                let content = content.as_ref().map(|content| &content.0);
                let answer = self.answer_elicitation(&request_id, action, content, cx);
                cx.reply(to, answer);
            }
            RuntimeCommand::CancelChild { session_id } => {
                if !self.children.takes_cancel(&session_id) {
                    return cx.reply(to, Err(Refusal::NoSuchSession));
                }
                cx.send(OutgoingKind::Plain, requests::cancel(&session_id));
                cx.reply(to, Ok(()));
            }
            RuntimeCommand::Hibernate { last_turn, reason } => match self.may_hibernate(last_turn) {
                Ok(()) => {
                    cx.reply(to, Ok(()));
                    self.begin_end(&reason, cx);
                }
                Err(refusal) => cx.reply(to, Err(refusal)),
            },
            RuntimeCommand::Terminate { .. } => {}
        }
    }

    /// Whether the session can restore everything that ends with the agent.
    fn may_hibernate(&self, last_turn: u64) -> Result<(), Refusal> {
        let ConversationState::Ready { turn, .. } = &self.state else { return Err(Refusal::NotReady) };
        if self.last_turn > last_turn {
            return Err(Refusal::WrongTurn { last: self.last_turn });
        }
        if self.storage == Storage::Full {
            return Err(Refusal::StorageFull);
        }
        if turn.is_some() || !self.is_quiet() {
            return Err(Refusal::Busy);
        }
        Ok(())
    }

    /// Whether nothing besides a turn is open: no question, no client request, no option change.
    pub(super) fn is_quiet(&self) -> bool {
        self.approvals.is_empty() && self.calls.is_quiet() && self.settings.is_quiet()
    }
}
