//! Records first, then actions, in order; and the handling of a full disk.

use std::time::Duration;

use subagent_protocol::frame::FromRuntime;

use super::Driver;
use super::alarms::Alarm;
use crate::acp::outgoing::OutgoingKind;
use crate::conversation::{ConversationAction, ConversationInput, Cx, Storage};
use crate::{guard, stderr};

/// Delay before the first retry on a full disk.
pub(super) const FIRST_RETRY: Duration = Duration::from_millis(100);
const LAST_RETRY: Duration = Duration::from_secs(2);
/// Delay of a quota check. Deleted segments are noticed at once; this covers a missed notification.
const QUOTA_TIMEOUT: Duration = Duration::from_secs(5);
/// The same without notifications; the agent waits meanwhile.
const UNWATCHED_QUOTA_TIMEOUT: Duration = Duration::from_millis(100);

impl Driver {
    /// Hands one input to the conversation and carries out the effects.
    pub(super) fn apply(&mut self, input: ConversationInput<'_>) {
        let actions = self.handle(input);
        self.settle(actions);
    }

    fn handle(&mut self, input: ConversationInput<'_>) -> Vec<ConversationAction> {
        let mut actions = Vec::new();
        self.journal.batch.set_time();
        let mut cx = Cx { batch: &mut self.journal.batch, actions: &mut actions, tail: &self.tail };
        self.conversation.handle(input, &mut cx);
        actions
    }

    /// Writes the waiting records and then carries out the actions that waited for them.
    pub(super) fn settle(&mut self, actions: Vec<ConversationAction>) {
        self.sort(actions);
        match self.commit() {
            Ok(()) if self.storage == Storage::Full => {
                self.log.note("the journal can be written again");
                self.storage_is(Storage::Ok);
            }
            Ok(()) => {}
            Err(error) => {
                if self.storage == Storage::Ok {
                    self.log.note(&format!("the journal cannot be written: {error}"));
                    self.retry_after = FIRST_RETRY;
                    self.storage_is(Storage::Full);
                }
                self.alarms.set(Alarm::Retry, self.retry_after);
                self.retry_after = (self.retry_after * 2).min(LAST_RETRY);
                return;
            }
        }
        let end = self.journal.end();
        self.ends.send_if_modified(|known| std::mem::replace(known, end) != end);
        if self.journal.over_quota() && !self.alarms.is_set(Alarm::Quota) {
            self.alarms.set(Alarm::Quota, self.quota_patience());
        }
        for action in std::mem::take(&mut self.withheld) {
            self.perform(action);
        }
        self.write_input();
        self.serve_calls();
    }

    fn commit(&mut self) -> std::io::Result<()> {
        if self.abandoned {
            self.journal.batch.take_back();
            return Ok(());
        }
        self.journal.commit()
    }

    fn storage_is(&mut self, storage: Storage) {
        self.storage = storage;
        let actions = self.handle(ConversationInput::Storage(storage));
        self.sort(actions);
    }

    /// Carries out actions that need no record; the others wait.
    fn sort(&mut self, actions: Vec<ConversationAction>) {
        for action in withhold(&mut self.withheld, actions) {
            self.perform(action);
        }
    }

    fn perform(&mut self, action: ConversationAction) {
        match action {
            ConversationAction::Send(line) => self.outgoing.push(line),
            ConversationAction::Accept(to) => {
                self.reply(to.connection, FromRuntime::Reply { id: to.id, refusal: None })
            }
            ConversationAction::Refuse(to, refusal) => {
                self.reply(to.connection, FromRuntime::Reply { id: to.id, refusal: Some(refusal) });
            }
            ConversationAction::SetTimer(timer, after) => self.alarms.set(Alarm::Conversation(timer), after),
            ConversationAction::ClearTimer(timer) => self.alarms.clear(Alarm::Conversation(timer)),
            ConversationAction::CloseInput => self.close_input(),
            ConversationAction::Terminate => self.signal_guard(guard::TERMINATE),
            ConversationAction::Call(call) => self.calls.push_back(call),
            ConversationAction::DropCall(call) => self.client.drop_call(call),
            ConversationAction::EndCalls => self.end_calls(),
            ConversationAction::EndTree => self.signal_guard(guard::END),
            ConversationAction::AbandonJournal => {
                self.log.note("the end of this runtime could not be written into its journal");
                self.abandoned = true;
                self.alarms.set(Alarm::Retry, Duration::ZERO);
            }
            // Nothing to do: the dropped prompt was never handed out.
            ConversationAction::DropPrompt => {}
            ConversationAction::Note(message) => self.log.note(&message),
            ConversationAction::Stdout(line) => self.take_errors(&stderr::of_stdout(&line)),
            ConversationAction::Exit => self.done = true,
        }
    }

    /// Whether the agent's output is read. It is not while it cannot be recorded.
    pub(super) fn reads_output(&self) -> bool {
        // An ended agent leaves little in the pipe, possibly with the end of its turn.
        let gone = self.exit != super::AgentExit::Running;
        self.storage == Storage::Ok && (gone || !self.journal.over_quota())
    }

    pub(super) fn look_at_quota(&mut self) {
        if self.journal.over_quota() {
            self.journal.look_at_quota();
        }
        if self.journal.over_quota() {
            self.alarms.set(Alarm::Quota, self.quota_patience());
        }
    }

    fn quota_patience(&self) -> Duration {
        if self.watch.is_some() { QUOTA_TIMEOUT } else { UNWATCHED_QUOTA_TIMEOUT }
    }
}

/// Adds actions that wait for their records to `withheld`. Returns the others, in order.
pub(crate) fn withhold(
    withheld: &mut Vec<ConversationAction>,
    actions: Vec<ConversationAction>,
) -> Vec<ConversationAction> {
    let mut at_once = Vec::new();
    for action in actions {
        match action {
            ConversationAction::SetTimer(..)
            | ConversationAction::ClearTimer(_)
            | ConversationAction::Refuse(..)
            | ConversationAction::DropCall(_)
            | ConversationAction::AbandonJournal => at_once.push(action),
            ConversationAction::DropPrompt => {
                withheld.retain(|action| !matches!(action, ConversationAction::Send(line) if line.kind == OutgoingKind::Prompt));
            }
            _ => withheld.push(action),
        }
    }
    at_once
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::acp::outgoing::OutgoingLine;
    use crate::conversation::{ReplyTo, Timer};

    fn send(kind: OutgoingKind) -> ConversationAction {
        ConversationAction::Send(OutgoingLine { kind, bytes: b"x\n".to_vec() })
    }

    #[test]
    fn a_prompt_that_waits_is_forgotten_with_its_turn() {
        let accept = || ConversationAction::Accept(ReplyTo { connection: 1, id: 2 });
        let mut withheld = Vec::new();
        let begun = vec![
            accept(),
            send(OutgoingKind::Prompt),
            ConversationAction::SetTimer(Timer::Turn, Duration::ZERO),
        ];
        assert_eq!(
            withhold(&mut withheld, begun),
            [ConversationAction::SetTimer(Timer::Turn, Duration::ZERO)]
        );
        assert_eq!(withheld, [accept(), send(OutgoingKind::Prompt)]);
        let ended = vec![
            ConversationAction::ClearTimer(Timer::Turn),
            ConversationAction::DropPrompt,
            send(OutgoingKind::Plain),
        ];
        assert_eq!(withhold(&mut withheld, ended), [ConversationAction::ClearTimer(Timer::Turn)]);
        assert_eq!(withheld, [accept(), send(OutgoingKind::Plain)]);
        // The prompt of the next turn is another one.
        withhold(&mut withheld, vec![send(OutgoingKind::Prompt)]);
        assert_eq!(withheld.last(), Some(&send(OutgoingKind::Prompt)));
    }
}
