//! Records first, then actions, in order; and the handling of a full disk.

use std::time::Duration;

use subagent_protocol::frame::FromRuntime;

use super::Driver;
use super::alarms::Alarm;
use crate::acp::outgoing::Kind;
use crate::conversation::{Action, Cx, Input, Storage};
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
    pub(super) fn apply(&mut self, input: Input<'_>) {
        let actions = self.handle(input);
        self.settle(actions);
    }

    fn handle(&mut self, input: Input<'_>) -> Vec<Action> {
        let mut actions = Vec::new();
        self.journal.batch.set_time();
        let mut cx = Cx { batch: &mut self.journal.batch, actions: &mut actions, tail: &self.tail };
        self.conversation.handle(input, &mut cx);
        actions
    }

    /// Writes the waiting records and then carries out the actions that waited for them.
    pub(super) fn settle(&mut self, actions: Vec<Action>) {
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
        let actions = self.handle(Input::Storage(storage));
        self.sort(actions);
    }

    /// Carries out actions that need no record; the others wait.
    fn sort(&mut self, actions: Vec<Action>) {
        for action in withhold(&mut self.withheld, actions) {
            self.perform(action);
        }
    }

    fn perform(&mut self, action: Action) {
        match action {
            Action::Send(line) => self.outgoing.push(line),
            Action::Accept(to) => self.reply(to.connection, FromRuntime::Reply { id: to.id, refusal: None }),
            Action::Refuse(to, refusal) => {
                self.reply(to.connection, FromRuntime::Reply { id: to.id, refusal: Some(refusal) });
            }
            Action::SetTimer(timer, after) => self.alarms.set(Alarm::Conversation(timer), after),
            Action::ClearTimer(timer) => self.alarms.clear(Alarm::Conversation(timer)),
            Action::CloseInput => self.close_input(),
            Action::Terminate => self.tell_guard(guard::TERMINATE),
            Action::Call(call) => self.calls.push_back(call),
            Action::DropCall(call) => self.client.drop_call(call),
            Action::EndCalls => self.end_calls(),
            Action::EndTree => self.tell_guard(guard::END),
            Action::AbandonJournal => {
                self.log.note("the end of this runtime could not be written into its journal");
                self.abandoned = true;
                self.alarms.set(Alarm::Retry, Duration::ZERO);
            }
            // Nothing to do: the dropped prompt was never handed out.
            Action::DropPrompt => {}
            Action::Note(message) => self.log.note(&message),
            Action::Stdout(line) => self.take_errors(&stderr::of_stdout(&line)),
            Action::Exit => self.done = true,
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
pub(crate) fn withhold(withheld: &mut Vec<Action>, actions: Vec<Action>) -> Vec<Action> {
    let mut at_once = Vec::new();
    for action in actions {
        match action {
            Action::SetTimer(..)
            | Action::ClearTimer(_)
            | Action::Refuse(..)
            | Action::DropCall(_)
            | Action::AbandonJournal => at_once.push(action),
            Action::DropPrompt => {
                withheld.retain(|action| !matches!(action, Action::Send(line) if line.kind == Kind::Prompt));
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

    fn send(kind: Kind) -> Action {
        Action::Send(OutgoingLine { kind, bytes: b"x\n".to_vec() })
    }

    #[test]
    fn a_prompt_that_waits_is_forgotten_with_its_turn() {
        let accept = || Action::Accept(ReplyTo { connection: 1, id: 2 });
        let mut withheld = Vec::new();
        let begun = vec![accept(), send(Kind::Prompt), Action::SetTimer(Timer::Turn, Duration::ZERO)];
        assert_eq!(withhold(&mut withheld, begun), [Action::SetTimer(Timer::Turn, Duration::ZERO)]);
        assert_eq!(withheld, [accept(), send(Kind::Prompt)]);
        let ended = vec![Action::ClearTimer(Timer::Turn), Action::DropPrompt, send(Kind::Plain)];
        assert_eq!(withhold(&mut withheld, ended), [Action::ClearTimer(Timer::Turn)]);
        assert_eq!(withheld, [accept(), send(Kind::Plain)]);
        // The prompt of the next turn is another one.
        withhold(&mut withheld, vec![send(Kind::Prompt)]);
        assert_eq!(withheld.last(), Some(&send(Kind::Prompt)));
    }
}
