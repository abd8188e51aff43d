//! Every record of the existing journals is stored verbatim, and none is damaged in the middle.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OptionalExtension};
use subagent_protocol::codec::{Decoded, decode};
use subagent_protocol::record::JournalRecord;

use super::evidence::Evidence;

/// More than the size of any record in a test.
pub(super) const LIMIT: usize = 256 * 1024 * 1024;

pub(super) fn check(evidence: &Evidence, database: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut violations = Vec::new();
    let mut stored = database.prepare("SELECT worker, number, seq FROM events WHERE number IS NOT NULL")?;
    let stored = stored.query_map([], |row| Ok(((row.get(0)?, row.get(1)?), row.get(2)?)))?;
    let stored: HashMap<(i64, i64), i64> = stored.collect::<rusqlite::Result<_>>()?;
    let stored = Stored { database, seqs: stored };
    let mut workers = database.prepare(
        "SELECT w.id, w.worker_id, j.number, w.expired_number + 1
         FROM workers w JOIN journal_cursors j ON j.worker = w.id",
    )?;
    let workers = workers.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))?;
    for worker in workers {
        let (id, worker_id, cursor, first): (i64, String, i64, i64) = worker?;
        let mut last = None;
        for segment in segments(&evidence.journals(&worker_id)) {
            check_segment(evidence, &stored, (id, first, cursor), &segment, &mut last, &mut violations)?;
        }
    }
    Ok(violations)
}

/// Access to stored records by worker and number; most are in no index.
struct Stored<'a> {
    database: &'a Connection,
    seqs: HashMap<(i64, i64), i64>,
}

impl Stored<'_> {
    fn payload(&self, worker: i64, number: i64) -> rusqlite::Result<Option<String>> {
        let Some(seq) = self.seqs.get(&(worker, number)) else { return Ok(None) };
        let mut payload = self.database.prepare_cached("SELECT payload FROM events WHERE seq = ?1")?;
        payload.query_row([seq], |row| row.get(0)).optional()
    }
}

fn check_segment(
    evidence: &Evidence,
    stored: &Stored<'_>,
    (worker, first, cursor): (i64, i64, i64),
    segment: &Path,
    last: &mut Option<u64>,
    violations: &mut Vec<String>,
) -> rusqlite::Result<()> {
    let name = segment.display();
    // The daemon may have read and deleted it since the listing.
    let Ok(bytes) = fs::read(segment) else { return Ok(()) };
    let mut rest = bytes.as_slice();
    while !rest.is_empty() {
        let (json, size) = match decode(rest, LIMIT) {
            Decoded::Record { json, size } => (json, size),
            // The runtime was killed during a write, or is writing now.
            Decoded::Incomplete { .. } => return Ok(()),
            Decoded::Corrupt(why) => {
                violations.push(format!("{name}: {why}, {} bytes before the end", rest.len()));
                return Ok(());
            }
        };
        rest = &rest[size..];
        let Ok(record) = serde_json::from_slice::<JournalRecord>(json) else {
            violations
                .push(format!("{name}: a record that cannot be read: {}", String::from_utf8_lossy(json)));
            continue;
        };
        if last.is_some_and(|last| record.n != last + 1) {
            violations.push(format!("{name}: record {} follows {last:?}", record.n));
        }
        *last = Some(record.n);
        let number = i64::try_from(record.n).unwrap();
        // Below the first kept record, it was stored and deleted since.
        if number < first || (number > cursor && !evidence.ended) {
            continue;
        }
        let payload = stored.payload(worker, number)?;
        if payload.as_deref() != Some(record.b.map_or("null", |body| body.get())) {
            violations.push(format!("{name}: record {} ({}) is stored as {payload:?}", record.n, record.t));
        }
    }
    Ok(())
}

/// Returns the segments in the order of their numbers.
pub(super) fn segments(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found: Vec<(u64, PathBuf)> = entries
        .filter_map(|entry| {
            let path = entry.path();
            let number = path.file_name()?.to_str()?.strip_suffix(".journal")?.parse().ok()?;
            Some((number, path))
        })
        .collect();
    found.sort();
    found.into_iter().map(|(_, path)| path).collect()
}
