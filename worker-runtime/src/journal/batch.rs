//! Records that are not written yet: numbered, encoded, in order.
//!
//! Does no I/O: the conversation adds records, and the journal writes them.

use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use subagent_protocol::codec::{self, Decoded};
use subagent_protocol::record::{JournalRecord, RecordType};

use super::bound;

/// A buffer that grew above this in a burst is released.
const KEPT_BYTES: usize = 16 * 1024;

/// An ordered run of records.
#[derive(Debug)]
pub(crate) struct RecordBatch {
    bytes: Vec<u8>,
    scratch: Vec<u8>,
    first: u64,
    next: u64,
    at: i64,
    types: u32,
}

impl RecordBatch {
    /// Creates an empty batch whose first record gets the number `next`.
    pub(crate) fn new(next: u64) -> Self {
        Self { bytes: Vec::new(), scratch: Vec::new(), first: next, next, at: now(), types: 0 }
    }

    /// Sets the current time for the following records.
    pub(crate) fn set_time(&mut self) {
        self.at = now();
    }

    /// Sets another time for the following records.
    #[cfg(feature = "testing")]
    pub(crate) fn set_time_to(&mut self, at: i64) {
        self.at = at;
    }

    /// Appends a record with a verbatim body. A body that is too long is shortened
    /// or replaced by noise.
    pub(crate) fn push(&mut self, t: RecordType, turn: Option<u64>, kind: Option<&str>, body: &RawValue) {
        let (kept, body) = bound::fit(t, body, bound::MAX_BODY_BYTES);
        let kind = kind.filter(|_| kept == t);
        let t = kept;
        let record =
            JournalRecord { n: self.next, at: self.at, t, turn, k: kind.map(Into::into), b: Some(&body) };
        self.scratch.clear();
        write_json(&mut self.scratch, &record);
        codec::encode(&self.scratch, &mut self.bytes);
        self.next += 1;
        self.types |= bit(t);
    }

    pub(crate) fn push_body<T: Serialize>(&mut self, t: RecordType, turn: Option<u64>, body: &T) {
        self.push(t, turn, None, &to_raw(body));
    }

    /// Returns the encoded records.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Returns the number of its first record.
    pub(crate) fn first(&self) -> u64 {
        self.first
    }

    /// Returns the number of the next record.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Whether it contains a record that must be written even on a full disk.
    pub(crate) fn is_critical(&self) -> bool {
        self.types & !ORDINARY != 0
    }

    /// Removes the records after they were written.
    pub(crate) fn clear(&mut self) {
        self.first = self.next;
        self.types = 0;
        self.bytes.clear();
        self.bytes.shrink_to(KEPT_BYTES);
        self.scratch.clear();
        self.scratch.shrink_to(KEPT_BYTES);
    }

    /// Assigns a number to a record that is written elsewhere. Only for an empty batch.
    pub(super) fn skip(&mut self) -> u64 {
        let number = self.next;
        self.next += 1;
        self.first = self.next;
        number
    }

    /// Removes records that were not written, and frees their numbers.
    pub(crate) fn take_back(&mut self) {
        self.next = self.first;
        self.clear();
    }

    /// Drops records that only report progress, so that the essential ones fit into the reserve.
    /// Returns how many it dropped.
    pub(crate) fn shed(&mut self) -> u64 {
        let before = self.next - self.first;
        self.rewrite(self.first, |t| !ordinary(t));
        before - (self.next - self.first)
    }

    /// Renumbers its records from `first` on.
    pub(super) fn renumber(&mut self, first: u64) {
        self.rewrite(first, |_| true);
    }

    fn rewrite(&mut self, first: u64, keep: impl Fn(RecordType) -> bool) {
        let old = std::mem::take(&mut self.bytes);
        let mut rest = old.as_slice();
        (self.first, self.next, self.types) = (first, first, 0);
        // We encoded these bytes ourselves, so decoding ends exactly at the end of the buffer.
        while let Decoded::Record { json, size } = codec::decode(rest, usize::MAX) {
            rest = &rest[size..];
            let Ok(mut record) = serde_json::from_slice::<JournalRecord<'_>>(json) else { continue };
            if keep(record.t) {
                record.n = self.next;
                self.scratch.clear();
                write_json(&mut self.scratch, &record);
                codec::encode(&self.scratch, &mut self.bytes);
                self.next += 1;
                self.types |= bit(record.t);
            }
        }
    }

    pub(super) fn hit_before(&self) {
        self.hit([
            (RecordType::Dispatching, "dispatch.before_record"),
            (RecordType::AnswerWritten, "answer.before_record"),
            (RecordType::TurnEnd, "turn_end.before_record"),
            (RecordType::CancelRequested, "cancel.before_record"),
            (RecordType::ApprovalRequested, "question.before_record"),
            (RecordType::OptionSet, "option.before_record"),
            (RecordType::ElicitationRequested, "question.before_record"),
            (RecordType::Terminating, "terminate.before_record"),
            (RecordType::Ended, "ended.before_record"),
        ]);
    }

    pub(super) fn hit_after(&self) {
        self.hit([
            (RecordType::Dispatching, "dispatch.after_record"),
            (RecordType::AnswerWritten, "answer.after_record"),
            (RecordType::TurnEnd, "turn_end.after_record"),
            (RecordType::CancelRequested, "cancel.after_record"),
            (RecordType::ApprovalRequested, "question.after_record"),
            (RecordType::OptionSet, "option.after_record"),
            (RecordType::ElicitationRequested, "question.after_record"),
            (RecordType::Terminating, "terminate.after_record"),
            (RecordType::Ended, "ended.after_record"),
        ]);
    }

    fn hit<const N: usize>(&self, points: [(RecordType, &str); N]) {
        for (t, name) in points {
            if self.types & bit(t) != 0 {
                subagent_failpoint::hit(name);
            }
        }
    }
}

/// Returns a body as JSON text.
// Serializing strings, numbers and JSON into memory cannot fail.
#[allow(clippy::expect_used)]
pub(crate) fn to_raw<T: Serialize>(body: &T) -> Box<RawValue> {
    to_raw_value(body).expect("the body of a record can be written into memory")
}

// Cannot fail, as above.
#[allow(clippy::expect_used)]
fn write_json(buffer: &mut Vec<u8>, record: &JournalRecord<'_>) {
    serde_json::to_writer(buffer, record).expect("a record can be written into memory");
}

const fn bit(t: RecordType) -> u32 {
    1 << t as u32
}

const ORDINARY: u32 = bit(RecordType::Update)
    | bit(RecordType::ChildUpdate)
    | bit(RecordType::Notification)
    | bit(RecordType::Noise)
    | bit(RecordType::ClientRequest)
    | bit(RecordType::ClientResponse)
    | bit(RecordType::TerminalExited)
    | bit(RecordType::OptionSet);

/// Whether the record only reports progress.
pub(super) const fn ordinary(t: RecordType) -> bool {
    bit(t) & ORDINARY != 0
}

/// Returns what the clock of this machine shows, in milliseconds since 1970.
pub(crate) fn now() -> i64 {
    // A clock before 1970 is wrong anyway. The order never depends on it.
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

#[cfg(test)]
pub(crate) mod reading {
    //! Decodes a batch for tests.

    use subagent_protocol::surrogates;

    use super::*;

    /// A record without its borrowed parts.
    #[derive(Debug, Clone)]
    pub(crate) struct OwnedRecord {
        pub(crate) n: u64,
        pub(crate) t: RecordType,
        pub(crate) turn: Option<u64>,
        pub(crate) kind: Option<String>,
        pub(crate) body: serde_json::Value,
    }

    /// Decodes all records of a buffer, which must end with the last of them.
    pub(crate) fn records(mut bytes: &[u8]) -> Vec<OwnedRecord> {
        let mut all = Vec::new();
        while !bytes.is_empty() {
            let Decoded::Record { json, size } = codec::decode(bytes, usize::MAX) else {
                panic!("no record after {all:?}");
            };
            let record: JournalRecord<'_> = serde_json::from_slice(json).unwrap();
            let body = record.b.map_or(serde_json::Value::Null, |b| surrogates::parse(b.get()).unwrap());
            all.push(OwnedRecord {
                n: record.n,
                t: record.t,
                turn: record.turn,
                kind: record.k.map(|k| k.into_owned()),
                body,
            });
            bytes = &bytes[size..];
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use subagent_protocol::record::{EndedRecord, Terminating};

    #[test]
    fn shedding_keeps_critical_records_and_contiguous_numbers() {
        let mut batch = RecordBatch::new(5);
        let update = to_raw(&serde_json::json!({"a": 1}));
        batch.push(RecordType::Update, Some(1), Some("plan"), &update);
        batch.push_body(RecordType::Terminating, None, &Terminating { reason: "r".to_owned() });
        batch.push(RecordType::Update, Some(1), Some("plan"), &update);
        assert!(batch.is_critical());
        assert_eq!(batch.shed(), 2);
        batch.push_body(RecordType::Ended, None, &EndedRecord { killed: 0, millis: 0 });
        let records = reading::records(batch.bytes());
        assert_eq!(
            records.iter().map(|r| (r.n, r.t)).collect::<Vec<_>>(),
            [(5, RecordType::Terminating), (6, RecordType::Ended)]
        );
        batch.renumber(8);
        assert_eq!(reading::records(batch.bytes())[1].n, 9);
        assert_eq!(batch.next(), 10);
    }

    #[test]
    fn no_record_is_larger_than_its_reader_takes() {
        let largest = "x".repeat(bound::MAX_BODY_BYTES - 2);
        let mut batch = RecordBatch::new(u64::MAX - 9);
        batch.push(RecordType::Update, Some(u64::MAX), Some(&"\u{1}".repeat(64)), &to_raw(&largest));
        let Decoded::Record { json, size } = codec::decode(batch.bytes(), codec::MAX_RECORD_BYTES) else {
            panic!("its reader rejects it");
        };
        assert!(size == batch.bytes().len() && json.ends_with(b"xxx\"}"));
        batch.clear();
        batch.push(RecordType::Update, Some(1), Some("plan"), &to_raw(&(largest + "x")));
        let records = reading::records(batch.bytes());
        assert_eq!((records[0].t, &records[0].kind, records[0].turn), (RecordType::Noise, &None, Some(1)));
        assert_eq!(records[0].body["bytes"], bound::MAX_BODY_BYTES + 1);
    }

    #[test]
    fn progress_alone_is_not_critical() {
        let mut batch = RecordBatch::new(1);
        batch.push(RecordType::Update, None, Some("plan"), &to_raw(&serde_json::json!({})));
        assert!(!batch.is_critical());
        assert_eq!(batch.shed(), 1);
        assert!(batch.is_empty());
    }
}
