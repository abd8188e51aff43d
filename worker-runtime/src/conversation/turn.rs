//! A turn: one prompt and everything until its end, which is recorded exactly once.

use serde_json::Value;
use subagent_protocol::Error;
use subagent_protocol::attachment::Attachment;
use subagent_protocol::frame::{DefinitionChange, Refusal};
use subagent_protocol::ids::TurnId;
use subagent_protocol::record::{CancelRequested, Dispatching, RecordType, TurnEnd, TurnEndBody};

use super::login::TurnLogin;
use super::{Conversation, ConversationAction, ConversationState, Cx, Storage, Timer, definition, errors};
use crate::acp::message::RpcOutcome;
use crate::acp::outgoing::OutgoingKind;
use crate::acp::{attachments, requests, results};

/// The prompt that the agent works on.
pub(super) struct OpenTurn {
    pub(super) number: u64,
    /// The id of its `session/prompt` request.
    pub(super) rpc: u64,
    pub(super) cancel: Option<CancelCause>,
    /// The prompt, while options of a new definition are still being set.
    pub(super) held: Option<Vec<u8>>,
    /// Set while a rejected prompt waits for a login; `rpc` is then the id of the login request.
    pub(super) login: Option<TurnLogin>,
}

/// Why the agent was asked to cancel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CancelCause {
    /// A client asked for it.
    Requested,
    /// The turn exceeded its time limit.
    Timeout,
    /// The runtime is ending.
    Stopping,
}

/// The parts of a prompt.
pub(super) struct PromptParts<'a> {
    pub(super) turn: u64,
    pub(super) turn_id: TurnId,
    pub(super) prompt: &'a [Value],
    pub(super) attachments: &'a [Attachment],
    pub(super) change: Option<&'a DefinitionChange>,
}

impl Conversation {
    /// Accepts a prompt and returns its line. Returns `None` if the prompt is held
    /// until options are set.
    pub(super) fn prompt(
        &mut self,
        connection: u64,
        given: PromptParts<'_>,
        cx: &mut Cx<'_>,
    ) -> Result<Option<Vec<u8>>, Refusal> {
        let PromptParts { turn: number, turn_id, prompt, attachments, change } = given;
        let (last, full) = (self.last_turn, self.storage == Storage::Full);
        let rpc = self.next_rpc + 1;
        let takes = self.agent.as_ref().map(|agent| agent.capabilities.prompt).unwrap_or_default();
        let ConversationState::Ready { session, turn } = &self.state else { return Err(Refusal::NotReady) };
        // Gaps are allowed: turns that were canceled before they were sent never arrive.
        if number <= last {
            return Err(Refusal::WrongTurn { last });
        }
        if turn.is_some() {
            return Err(Refusal::Busy);
        }
        if full || self.refused == Some((connection, number)) {
            self.refused = Some((connection, number));
            return Err(Refusal::StorageFull);
        }
        let attached = attachments::blocks(attachments, takes)
            .map_err(|error| Refusal::NotSupported { error: Box::new(error) })?;
        let session = session.id.clone();
        let waits = change.is_some_and(|change| self.take_change(change));
        let instructions = definition::block(&self.config.context);
        let line = requests::prompt(rpc, &session, instructions.as_ref(), prompt, &attached);
        let (line, held) = if waits { (None, Some(line)) } else { (Some(line), None) };
        if let ConversationState::Ready { turn, .. } = &mut self.state {
            *turn = Some(OpenTurn { number, rpc, cancel: None, held, login: None });
        }
        (self.next_rpc, self.last_turn) = (rpc, number);
        (self.late_turn, self.replaying) = (None, false);
        self.tool_calls.close_all();
        cx.record(RecordType::Dispatching, Some(number), &Dispatching { turn_id });
        if let Some(millis) = self.config.timeouts.turn_ms {
            cx.set_timer(Timer::Turn, millis);
        }
        Ok(line)
    }

    pub(super) fn cancel(&mut self, number: u64, reason: String, cx: &mut Cx<'_>) -> Result<bool, Refusal> {
        let Some(turn) = self.turn().filter(|turn| turn.number == number) else {
            return Err(Refusal::NoSuchTurn);
        };
        if turn.cancel == Some(CancelCause::Requested) {
            // The agent was asked already; the daemon repeats the command because
            // our reply was lost.
            return Ok(false);
        }
        if self.storage == Storage::Full {
            self.shed(cx);
        }
        cx.record(RecordType::CancelRequested, Some(number), &CancelRequested { reason });
        Ok(true)
    }

    /// The agent answered `session/prompt`.
    pub(super) fn prompt_answered(&mut self, outcome: RpcOutcome<'_>, cx: &mut Cx<'_>) {
        let cancel = self.turn().and_then(|turn| turn.cancel);
        if let Some(login) = self.take_login() {
            return self.turn_login_answered(login, &outcome, cx);
        }
        let (RpcOutcome::Result(raw) | RpcOutcome::Error(raw)) = &outcome;
        let answer = results::answer(raw).map(ToOwned::to_owned);
        let end = match (cancel, outcome) {
            (Some(CancelCause::Timeout), _) => {
                TurnEnd::Failed { error: errors::turn_timeout(self.turn_limit_seconds()) }
            }
            (_, RpcOutcome::Result(raw)) => {
                let result = results::value(raw);
                let stop_reason = result["stopReason"].as_str().map(str::to_owned);
                self.instructions_kept(stop_reason.as_deref());
                let (usage, meta) = (results::aside(&result["usage"]), results::aside(&result["_meta"]));
                TurnEnd::Answered { stop_reason, usage, meta }
            }
            (_, RpcOutcome::Error(error)) => {
                let error = results::value(error);
                if results::error_code(&error) == Some(requests::AUTH_REQUIRED) {
                    return self.prompt_wants_login(&error, answer, cx);
                }
                TurnEnd::Failed { error: errors::prompt_rejected(&error, self.limit_resets) }
            }
        };
        self.end_turn_with(&TurnEndBody { end: &end, answer: answer.as_deref() }, cx);
        self.turn_is_over(cx);
    }

    /// Records the end of the open turn, if there is one.
    pub(super) fn end_turn(&mut self, end: &TurnEnd, cx: &mut Cx<'_>) {
        self.end_turn_with(&TurnEndBody { end, answer: None }, cx);
    }

    pub(super) fn end_turn_with(&mut self, body: &TurnEndBody<'_>, cx: &mut Cx<'_>) {
        let Some(turn) = self.take_turn() else { return };
        self.close_approvals_of(turn.number, cx);
        cx.record(RecordType::TurnEnd, Some(turn.number), body);
        cx.clear_timer(Timer::Turn);
        cx.clear_timer(Timer::CancelGrace);
        cx.clear_timer(Timer::Phase);
        cx.push(ConversationAction::DropPrompt);
        self.late_turn = turn.cancel.is_some().then_some(turn.number);
    }

    pub(super) fn turn_timeout(&mut self, cx: &mut Cx<'_>) {
        if self.turn().is_some_and(|turn| turn.cancel.is_none()) {
            self.cancel_turn_for(CancelCause::Timeout, cx);
            cx.set_timer(Timer::CancelGrace, self.config.timeouts.cancel_grace_ms);
        }
    }

    pub(super) fn cancel_ignored(&mut self, cx: &mut Cx<'_>) {
        let error = match self.turn().and_then(|turn| turn.cancel) {
            Some(CancelCause::Timeout) => errors::turn_timeout(self.turn_limit_seconds()),
            Some(CancelCause::Requested) => {
                errors::cancel_ignored(self.config.timeouts.cancel_grace_ms as f64 / 1000.0)
            }
            // While the runtime ends, its steps have their own timer.
            Some(CancelCause::Stopping) | None => return,
        };
        self.end_turn(&TurnEnd::Failed { error }, cx);
        self.end_unresponsive("the agent ignored session/cancel", cx);
    }

    pub(super) fn storage_patience_over(&mut self, cx: &mut Cx<'_>) {
        if self.storage == Storage::Ok {
            return;
        }
        if self.is_ending() {
            return self.storage_full_at_end(cx);
        }
        if self.turn().is_none() && !self.is_starting() {
            // Waiting longer loses nothing.
            return;
        }
        let dropped = self.shed(cx);
        let error = errors::storage_full(dropped);
        if self.is_starting() {
            return self.fail_start(error, cx);
        }
        self.end_turn(&TurnEnd::Failed { error: errors::dispatched(error) }, cx);
        self.end_unresponsive("storage full", cx);
    }

    /// Drops progress records that cannot be written, to make room for the essential ones.
    pub(super) fn shed(&mut self, cx: &mut Cx<'_>) -> u64 {
        let dropped = cx.batch.shed();
        self.refuse_unwritten_calls(cx);
        if dropped > 0 {
            cx.push(ConversationAction::Note(format!(
                "the disk is full: {dropped} updates of the agent were dropped"
            )));
        }
        dropped
    }

    /// The definition's options are set: sends the prompt that was held.
    pub(super) fn release_prompt(&mut self, cx: &mut Cx<'_>) {
        if let Some(line) = self.turn_mut().and_then(|turn| turn.held.take()) {
            Self::send_prompt(line, cx);
        }
    }

    /// The held prompt is not sent; `error` ends its turn.
    pub(super) fn give_up_prompt(&mut self, error: Error, cx: &mut Cx<'_>) {
        if self.turn_mut().and_then(|turn| turn.held.take()).is_some() {
            self.end_turn(&TurnEnd::Failed { error: error.with("dispatched", "no") }, cx);
            self.turn_is_over(cx);
        }
    }

    /// Sends the prompt. Separate from [`Self::prompt`], so that the reply goes out first.
    pub(super) fn send_prompt(line: Vec<u8>, cx: &mut Cx<'_>) {
        cx.send(OutgoingKind::Prompt, line);
    }

    fn turn_limit_seconds(&self) -> f64 {
        self.config.timeouts.turn_ms.unwrap_or_default() as f64 / 1000.0
    }
}
