//! The daemon's side of what it reads from files and runtimes, as functions of bytes: for fuzzing
//! and for tests that damage good input.

// Built only with the feature `testing`. Each function takes any bytes and must return. It panics
// only if its own result is wrong: an input can be bad, the answer to it cannot.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a wrong answer must stop the test"
)]

use std::path::Path;

use subagent_core::model::Worker;
use subagent_protocol::record::JournalRecord;

use crate::store::Cursor;
use crate::supervisor::{JournalReader, SessionUpdates, input};

pub use crate::supervisor::frames_of_runtime;

/// More batches than records could fill are a reader that does not get on.
const SMALLEST_RECORD: usize = 20;

/// The journal of a runtime that is gone, in `directory`, which must be there: one segment of these bytes, and a
/// second one of `next`. Gives the numbers of the records that were read.
pub fn journal(directory: &Path, first: &[u8], next: Option<&[u8]>) -> Vec<u64> {
    std::fs::write(directory.join("1.journal"), first).unwrap();
    match next {
        Some(next) => std::fs::write(directory.join("2.journal"), next).unwrap(),
        None => drop(std::fs::remove_file(directory.join("2.journal"))),
    }
    let mut reader = JournalReader::new(directory);
    let mut cursor = Cursor { segment: 1, offset: 0, number: 0 };
    let mut worker = Worker::new();
    let mut numbers = Vec::new();
    let most = (first.len() + next.map_or(0, <[u8]>::len)) / SMALLEST_RECORD + 16;
    for _ in 0..most {
        let batch = reader.read(cursor, true).expect("the file can be read");
        for (range, _) in &batch.records {
            let Ok(record) = serde_json::from_slice::<JournalRecord<'_>>(&batch.bytes[range.clone()]) else {
                continue;
            };
            numbers.push(record.n);
            // What is not understood, and what contradicts the rules, leaves the worker as it was.
            if let Ok(Some(input)) =
                input(&record, worker.known_turn, &mut SessionUpdates::default(), |error| error)
                && let Ok(step) = worker.step(input)
            {
                worker = step.worker;
            }
        }
        let before = std::mem::replace(&mut cursor, batch.next);
        let moved = (before.segment, before.offset) != (cursor.segment, cursor.offset);
        assert!(moved || batch.end, "the reader stands still at {before:?}");
        if batch.end {
            return numbers;
        }
    }
    panic!("the reader does not come to an end: {cursor:?}");
}
