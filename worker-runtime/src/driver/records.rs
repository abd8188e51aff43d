//! The records of this runtime on their way into the journal, and the actions that wait for them.

use std::io;
use std::time::Duration;

use subagent_protocol::frame::JournalEnd;
use tokio::sync::watch as latest;

use crate::acp::outgoing::OutgoingKind;
use crate::conversation::{ConversationAction, Storage};
use crate::journal::Journal;

/// Delay before the first retry on a full disk.
const FIRST_RETRY: Duration = Duration::from_millis(100);
const LAST_RETRY: Duration = Duration::from_secs(2);

pub(super) struct RecordWriter {
    pub(super) journal: Journal,
    /// Actions that wait for their records.
    pub(super) withheld: Vec<ConversationAction>,
    pub(super) storage: Storage,
    retry_after: Duration,
    /// Whether no more records are written.
    pub(super) abandoned: bool,
    pub(super) ends: latest::Sender<JournalEnd>,
}

impl RecordWriter {
    pub(super) fn new(journal: Journal) -> Self {
        Self {
            ends: latest::Sender::new(journal.end()),
            journal,
            withheld: Vec::new(),
            storage: Storage::Ok,
            retry_after: FIRST_RETRY,
            abandoned: false,
        }
    }

    pub(super) fn commit(&mut self) -> io::Result<()> {
        if self.abandoned {
            self.journal.batch.take_back();
            return Ok(());
        }
        self.journal.commit()
    }

    /// Reports the end of the journal to the connections.
    pub(super) fn report_end(&self) {
        let end = self.journal.end();
        self.ends.send_if_modified(|known| std::mem::replace(known, end) != end);
    }

    /// Returns the delay of the next retry on a full disk.
    pub(super) fn next_retry(&mut self) -> Duration {
        if self.storage == Storage::Ok {
            self.retry_after = FIRST_RETRY;
        }
        let after = self.retry_after;
        self.retry_after = (after * 2).min(LAST_RETRY);
        after
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
