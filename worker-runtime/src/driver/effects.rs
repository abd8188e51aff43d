//! Records first, then actions, in order; and the handling of a full disk.

use std::time::Duration;

use subagent_protocol::frame::FromRuntime;

use super::agent_process::AgentExit;
use super::alarms::Alarm;
use super::records::withhold;
use super::state::Driver;
use super::{agent, client};
use crate::conversation::{ConversationAction, ConversationInput, Cx, Storage};
use crate::{guard, stderr};

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
        self.records.journal.batch.set_time();
        let mut cx =
            Cx { batch: &mut self.records.journal.batch, actions: &mut actions, tail: &self.agent.tail };
        self.conversation.handle(input, &mut cx);
        actions
    }

    /// Writes the waiting records and then carries out the actions that waited for them.
    pub(super) fn settle(&mut self, actions: Vec<ConversationAction>) {
        self.sort(actions);
        match self.records.commit() {
            Ok(()) if self.records.storage == Storage::Full => {
                self.log.note("the journal can be written again");
                self.storage_is(Storage::Ok);
            }
            Ok(()) => {}
            Err(error) => {
                let after = self.records.next_retry();
                if self.records.storage == Storage::Ok {
                    self.log.note(&format!("the journal cannot be written: {error}"));
                    self.storage_is(Storage::Full);
                }
                self.alarms.set(Alarm::Retry, after);
                return;
            }
        }
        self.records.report_end();
        if self.records.journal.over_quota() && !self.alarms.is_set(Alarm::Quota) {
            self.alarms.set(Alarm::Quota, self.quota_patience());
        }
        for action in std::mem::take(&mut self.records.withheld) {
            self.perform(action);
        }
        agent::write_input(self);
        client::serve_calls(self);
    }

    fn storage_is(&mut self, storage: Storage) {
        self.records.storage = storage;
        let actions = self.handle(ConversationInput::Storage(storage));
        self.sort(actions);
    }

    /// Carries out actions that need no record; the others wait.
    fn sort(&mut self, actions: Vec<ConversationAction>) {
        for action in withhold(&mut self.records.withheld, actions) {
            self.perform(action);
        }
    }

    fn perform(&mut self, action: ConversationAction) {
        match action {
            ConversationAction::Send(line) => self.agent.outgoing.push(line),
            ConversationAction::Accept(to) => {
                self.daemon.reply(to.connection, FromRuntime::Reply { id: to.id, refusal: None })
            }
            ConversationAction::Refuse(to, refusal) => {
                self.daemon.reply(to.connection, FromRuntime::Reply { id: to.id, refusal: Some(refusal) });
            }
            ConversationAction::SetTimer(timer, after) => self.alarms.set(Alarm::Conversation(timer), after),
            ConversationAction::ClearTimer(timer) => self.alarms.clear(Alarm::Conversation(timer)),
            ConversationAction::CloseInput => agent::close_input(self),
            ConversationAction::Terminate => self.agent.signal_guard(guard::TERMINATE),
            ConversationAction::Call(call) => self.client.calls.push_back(call),
            ConversationAction::DropCall(call) => self.client.executor.drop_call(call),
            ConversationAction::EndCalls => client::end_calls(self),
            ConversationAction::EndTree => self.agent.signal_guard(guard::END),
            ConversationAction::AbandonJournal => {
                self.log.note("the end of this runtime could not be written into its journal");
                self.records.abandoned = true;
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
        let gone = self.agent.exit != AgentExit::Running;
        self.records.storage == Storage::Ok && (gone || !self.records.journal.over_quota())
    }

    pub(super) fn look_at_quota(&mut self) {
        if self.records.journal.over_quota() {
            self.records.journal.look_at_quota();
        }
        if self.records.journal.over_quota() {
            self.alarms.set(Alarm::Quota, self.quota_patience());
        }
    }

    fn quota_patience(&self) -> Duration {
        if self.files.watch.is_some() { QUOTA_TIMEOUT } else { UNWATCHED_QUOTA_TIMEOUT }
    }
}
