//! A batch of the journal on its way into the store: what was read, what it leads to, and what of that may be lost.

use std::borrow::Cow;
use std::ops::Range;

use subagent_protocol::details::Report;
use subagent_protocol::event::{EventType, option_kind};
use subagent_protocol::record::{OptionSet, Record, RecordType};
use subagent_protocol::time::Timestamp;
use subagent_protocol::update;

use super::ingest::Aside;
use super::task_limits::Open;
use crate::core::{Action, Fact, Input, Worker};
use crate::store::{Cursor, Durability, NewEvent};
use crate::supervisor::journal::Batch;
use crate::supervisor::policy::Watch;

/// A record on its way into the store.
pub(super) struct Draft {
    pub(super) number: u64,
    pub(super) turn: Option<u64>,
    pub(super) at: i64,
    pub(super) event_type: EventType,
    pub(super) kind: Option<Cow<'static, str>>,
    pub(super) record: RecordType,
    pub(super) payload: Range<usize>,
    pub(super) facts: Vec<Fact>,
    /// Whether the record belongs to a turn that is only made by its facts.
    pub(super) facts_first: bool,
}

impl Draft {
    /// Its row; the body is in the bytes of its batch.
    pub(super) fn event<'a>(&'a self, bytes: &'a [u8]) -> NewEvent<'a> {
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

/// What a batch leads to.
pub(super) struct Taken {
    pub(super) worker: Worker,
    pub(super) watch: Option<Watch>,
    /// The open prompt of a task.
    pub(super) prompt: Option<Open>,
    pub(super) drafts: Vec<Draft>,
    pub(super) actions: Vec<Action>,
    pub(super) cursor: Cursor,
    pub(super) aside: Aside,
    /// What the agent reports of itself.
    pub(super) reports: Vec<Report>,
    /// A runtime that the store has not heard of, and the boot that it was started in.
    pub(super) incarnation: Option<(u64, String)>,
    pub(super) gap: bool,
    pub(super) changed: bool,
    pub(super) durability: Durability,
    /// How many records were not understood.
    pub(super) misread: u64,
    /// Whether one says that something is done.
    pub(super) active: bool,
}

/// A batch that was read, and what it leads to if nothing happens before.
pub(super) struct Understood {
    pub(super) batch: Batch,
    /// `None` if nothing but the end of what there is was found.
    pub(super) taken: Option<Taken>,
}

/// What a batch is understood by.
pub(super) struct Basis {
    pub(super) worker: Worker,
    pub(super) watch: Option<Watch>,
    pub(super) prompt: Option<Open>,
    pub(super) cursor: Cursor,
    pub(super) clean_end: bool,
}

impl Taken {
    /// What else follows from a record, unless the rules refuse it. Says whether they did not.
    pub(super) fn follows(&mut self, input: Input, facts: &mut Vec<Fact>) -> bool {
        let Ok(step) = self.worker.step(input) else { return false };
        self.worker = step.worker;
        facts.extend(step.facts);
        self.actions.extend(step.actions);
        true
    }

    /// What the next batch is understood by, if this one leaves everything but the cursor as it was.
    pub(super) fn basis(&self) -> Option<Basis> {
        let aside = &self.aside;
        let is_quiet = !self.changed
            && self.actions.is_empty()
            && self.reports.is_empty()
            && self.incarnation.is_none()
            && aside.is_empty()
            && self.drafts.iter().all(|draft| draft.facts.is_empty());
        is_quiet.then(|| Basis {
            worker: self.worker.clone(),
            watch: self.watch.clone(),
            prompt: self.prompt.clone(),
            cursor: self.cursor,
            clean_end: aside.ended,
        })
    }
}

/// Whether it changes nothing: a loss of power may take it.
pub(super) const fn is_progress(record: RecordType) -> bool {
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

pub(super) fn kind(record: &Record<'_>) -> Option<Cow<'static, str>> {
    match record.t {
        // Nearly all are.
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

/// Where the body lies in the batch, so that it goes into the database without a copy.
pub(super) fn payload_range(bytes: &[u8], record: &Record<'_>) -> Range<usize> {
    let Some(body) = record.b else { return 0..0 };
    let start = body.get().as_ptr().addr() - bytes.as_ptr().addr();
    start..start + body.get().len()
}
