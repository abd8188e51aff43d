//! A short description of the state directory for failed tests.

use std::fmt::Write;
use std::path::Path;

use rusqlite::Connection;
use subagent_protocol::codec::{Decoded, decode};

use super::evidence::Evidence;
use super::journal::{LIMIT, segments};
use super::rows::rows;

/// The shown columns: never a payload, which may be long.
const TABLES: [&str; 4] = [
    "SELECT w.worker_id, w.state, w.desired, w.incarnation, w.runtime_pid, w.last_turn, j.segment, j.offset, j.number,
       w.last_error FROM workers w JOIN journal_cursors j ON j.worker = w.id",
    "SELECT w.worker_id, t.no, t.turn_id, t.status, t.dispatched, t.cancel_reason, t.cancel_requested
     FROM turns t JOIN workers w ON w.id = t.worker ORDER BY t.id DESC LIMIT 10",
    "SELECT request_id, status, option_id, by_cancel, asked_seq, decided_seq FROM approvals ORDER BY id DESC LIMIT 10",
    "SELECT e.seq, w.worker_id, e.number, t.turn_id, iif(e.type = '', 'progress.message', e.type) AS type, e.kind FROM events e JOIN workers w ON w.id = e.worker
       LEFT JOIN turns t ON t.id = e.turn ORDER BY e.seq DESC LIMIT 25",
];
/// Number of last records shown per segment.
const RECORDS: usize = 12;
/// Number of characters shown per record.
const RECORD: usize = 200;

/// Describes the database and the journals.
#[must_use]
pub fn describe(evidence: &Evidence) -> String {
    let mut text = String::new();
    if let Some(database) = evidence.database() {
        describe_database(&database, &mut text);
    }
    let workers = std::fs::read_dir(evidence.state_dir.join("runtimes")).into_iter().flatten().flatten();
    for worker in workers {
        for segment in segments(&worker.path()) {
            describe_segment(&segment, &mut text);
        }
    }
    text
}

fn describe_database(database: &Connection, text: &mut String) {
    for table in TABLES {
        for row in rows(database, table).unwrap_or_else(|error| vec![error.to_string()]) {
            text.push_str(&row);
            text.push('\n');
        }
        text.push('\n');
    }
}

fn describe_segment(path: &Path, text: &mut String) {
    let bytes = std::fs::read(path).unwrap_or_default();
    let mut rest = bytes.as_slice();
    let mut records = Vec::new();
    while let Decoded::Record { json, size } = decode(rest, LIMIT) {
        records.push(String::from_utf8_lossy(json).chars().take(RECORD).collect::<String>());
        rest = &rest[size..];
    }
    let _ = writeln!(
        text,
        "--- {}: {} bytes, {} at its end are no record",
        path.display(),
        bytes.len(),
        rest.len()
    );
    for record in records.iter().skip(records.len().saturating_sub(RECORDS)) {
        let _ = writeln!(text, "{record}");
    }
}
