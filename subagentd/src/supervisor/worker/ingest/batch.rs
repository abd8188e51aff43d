//! A batch of the journal on its way into the store: the records, their consequences, and the
//! required durability.

use std::borrow::Cow;
use std::ops::Range;

use subagent_core::model::{Fact, Worker, WorkerAction, WorkerInput};
use subagent_protocol::details::RecordDetail;
use subagent_protocol::event::{EventType, option_kind};
use subagent_protocol::record::{JournalRecord, OptionSet, RecordType};
use subagent_protocol::time::Timestamp;
use subagent_protocol::update;

use super::records::SessionUpdates;
use crate::store::{Cursor, Durability, NewEvent};
use crate::supervisor::policy::PolicyTracker;
use crate::supervisor::runtimes::journal::JournalBatch;
use crate::supervisor::worker::tasks::prompt::PromptUsage;

/// A record on its way into the store.
pub(crate) struct PendingRow {
    pub(crate) number: u64,
    pub(crate) turn: Option<u64>,
    pub(crate) at: i64,
    pub(crate) event_type: EventType,
    pub(crate) kind: Option<Cow<'static, str>>,
    pub(crate) record: RecordType,
    pub(crate) payload: Range<usize>,
    pub(crate) facts: Vec<Fact>,
    /// Whether the record belongs to a turn that its own facts create.
    pub(crate) facts_first: bool,
}

impl PendingRow {
    /// Returns its row. The body is a slice of the batch.
    pub(crate) fn event<'a>(&'a self, bytes: &'a [u8]) -> NewEvent<'a> {
        let payload = bytes.get(self.payload.clone()).and_then(|text| std::str::from_utf8(text).ok());
        NewEvent {
            number: Some(self.number),
            turn: self.turn,
            at: Timestamp(self.at),
            event_type: self.event_type,
            kind: self.kind.as_deref(),
            record: Some(self.record),
            payload: payload.unwrap_or("null"),
        }
    }
}

/// The consequences of a batch.
pub(crate) struct Taken {
    pub(crate) next: IngestState,
    pub(crate) drafts: Vec<PendingRow>,
    pub(crate) actions: Vec<WorkerAction>,
    pub(crate) aside: SessionUpdates,
    /// What the agent reported about itself.
    pub(crate) reports: Vec<RecordDetail>,
    /// A runtime that the store does not know, and the boot id of its start.
    pub(crate) incarnation: Option<(u64, String)>,
    pub(crate) gap: bool,
    pub(crate) changed: bool,
    pub(crate) durability: Durability,
    /// Number of unreadable records.
    pub(crate) misread: u64,
    /// Whether a record reports activity.
    pub(crate) active: bool,
}

/// A batch and its consequences, valid if no other change happens before it is stored.
pub(crate) struct DecodedBatch {
    pub(crate) batch: JournalBatch,
    /// `None` if the batch contains no records.
    pub(crate) taken: Option<Taken>,
}

/// The state from which a batch is interpreted, and in which it leaves the worker.
#[derive(Clone)]
pub(crate) struct IngestState {
    pub(crate) worker: Worker,
    pub(crate) watch: Option<PolicyTracker>,
    /// The open prompt of a task.
    pub(crate) prompt: Option<PromptUsage>,
    pub(crate) cursor: Cursor,
    pub(crate) clean_end: bool,
}

impl Taken {
    /// Applies another input that follows from a record. Returns false if the rules refuse it.
    pub(crate) fn follows(&mut self, input: WorkerInput, facts: &mut Vec<Fact>) -> bool {
        let Ok(step) = self.next.worker.step(input) else { return false };
        self.next.worker = step.worker;
        facts.extend(step.facts);
        self.actions.extend(step.actions);
        true
    }

    /// Returns the state for the next batch, if this one changes only the cursor.
    pub(crate) fn basis(&self) -> Option<IngestState> {
        let is_quiet = !self.changed
            && self.actions.is_empty()
            && self.reports.is_empty()
            && self.incarnation.is_none()
            && self.aside.is_empty()
            && self.drafts.iter().all(|draft| draft.facts.is_empty());
        is_quiet.then(|| self.next.clone())
    }
}

/// Returns whether the record changes no state, so that it may be lost in a power failure.
pub(crate) const fn is_progress(record: RecordType) -> bool {
    matches!(
        record,
        RecordType::Update
            | RecordType::ChildUpdate
            | RecordType::Notification
            | RecordType::Noise
            | RecordType::Segment
            | RecordType::ClientRequest
            | RecordType::ClientResponse
            | RecordType::TerminalExited
    )
}

pub(crate) fn kind(record: &JournalRecord<'_>) -> Option<Cow<'static, str>> {
    match record.t {
        // The most frequent kind needs no allocation.
        RecordType::Update if record.k.as_deref() == Some(update::MESSAGE) => {
            Some(Cow::Borrowed(update::MESSAGE))
        }
        RecordType::Update
        | RecordType::ChildUpdate
        | RecordType::ClientRequest
        | RecordType::ClientResponse
        | RecordType::TerminalExited => record.k.as_deref().map(|kind| Cow::Owned(kind.to_owned())),
        RecordType::Notification => Some(Cow::Borrowed("notification")),
        RecordType::Noise => Some(Cow::Borrowed("noise")),
        RecordType::Session => Some(Cow::Borrowed("session")),
        RecordType::OptionSet => {
            record.body::<OptionSet>().ok().map(|set| Cow::Owned(option_kind(&set.choice).to_owned()))
        }
        _ => None,
    }
}

/// Returns the position of the body in the batch, so that it is stored without a copy.
pub(crate) fn payload_range(bytes: &[u8], record: &JournalRecord<'_>) -> Range<usize> {
    let Some(body) = record.b else { return 0..0 };
    let start = body.get().as_ptr().addr() - bytes.as_ptr().addr();
    start..start + body.get().len()
}
