//! Reads a worker's journal from a cursor, batch by batch. The file was just written, so reads hit
//! the page cache. An incomplete record is left for the next read. A damaged one ends its segment
//! if the runtime is gone or has begun another, and is reported as a gap in the record numbers.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use subagent_protocol::codec::{self, Decoded};
use subagent_protocol::record::{JournalRecord, RecordType, Sealed};

use crate::store::Cursor;

/// Bounds of a read, in bytes. A read is a quarter longer than the previous batch, because the rest
/// would be read again. A longer record is read whole.
const LEAST_READ_BYTES: usize = 64 * 1024;
const MAX_READ_BYTES: usize = 1024 * 1024;
/// Maximum number of records in a batch.
const BATCH_RECORDS: usize = 256;

pub(crate) struct JournalReader {
    directory: PathBuf,
    segment: Option<(u64, File)>,
    read_bytes: usize,
}

/// A sequence of consecutive records.
pub(crate) struct JournalBatch {
    /// The bytes that were read.
    pub(crate) bytes: Vec<u8>,
    /// The JSON of each record as a range of `bytes`, with the cursor after the record.
    pub(crate) records: Vec<(Range<usize>, Cursor)>,
    /// The cursor to continue at, which may be past the last record.
    pub(crate) next: Cursor,
    /// Whether there are no more records for now.
    pub(crate) end: bool,
    /// Whether the batch reached the end of the file. The writer announces further records.
    pub(crate) drained: bool,
    /// Whether bytes that are not a record were skipped.
    pub(crate) damaged: bool,
}

impl JournalReader {
    pub(crate) fn new(directory: &Path) -> Self {
        Self { directory: directory.to_owned(), segment: None, read_bytes: LEAST_READ_BYTES }
    }

    /// Reads a batch at `cursor`. `last` means that the writer is gone, so an incomplete record
    /// stays incomplete.
    pub(crate) fn read(&mut self, cursor: Cursor, last: bool) -> io::Result<JournalBatch> {
        let mut batch = JournalBatch {
            bytes: Vec::new(),
            records: Vec::new(),
            next: cursor,
            end: true,
            drained: false,
            damaged: false,
        };
        if cursor.segment == 0 {
            return Ok(batch);
        }
        let length = self.read_bytes;
        let Some(file) = self.open(cursor.segment)? else {
            self.skip_missing_segment(&mut batch);
            return Ok(batch);
        };
        batch.bytes = read_at(file, cursor.offset, length)?;
        let mut position = 0;
        loop {
            match codec::decode(&batch.bytes[position..], codec::MAX_RECORD_BYTES) {
                Decoded::Record { json, size } => {
                    let start = position + codec::HEADER_BYTES;
                    let range = start..start + json.len();
                    position += size;
                    batch.next.offset += size as u64;
                    let sealed = sealed(&batch.bytes[range.clone()]);
                    if let Some(next) = sealed {
                        batch.next.segment = next.max(cursor.segment + 1);
                        batch.next.offset = 0;
                    }
                    batch.records.push((range, batch.next));
                    if sealed.is_some() || batch.records.len() >= BATCH_RECORDS {
                        batch.end = false;
                        self.took(position);
                        return Ok(batch);
                    }
                }
                Decoded::Incomplete { needed } => {
                    if batch.records.is_empty() && needed > batch.bytes.len() {
                        let longer = read_at(file, cursor.offset, needed)?;
                        if longer.len() > batch.bytes.len() {
                            batch.bytes = longer;
                            continue;
                        }
                    }
                    // The decoded records come first. The rest is read again after them.
                    batch.end = batch.records.is_empty();
                    batch.drained = !batch.end && position == batch.bytes.len() && batch.bytes.len() < length;
                    self.took(position);
                    if batch.end {
                        self.skip_torn_segment(&mut batch, last);
                    }
                    return Ok(batch);
                }
                Decoded::Corrupt(why) => {
                    batch.end = batch.records.is_empty();
                    if batch.end {
                        batch.damaged = true;
                        tracing::warn!(
                            directory = %self.directory.display(), segment = cursor.segment,
                            offset = cursor.offset, why, "a damaged record in a journal"
                        );
                        self.skip_torn_segment(&mut batch, last);
                    }
                    return Ok(batch);
                }
            }
        }
    }

    fn took(&mut self, bytes: usize) {
        self.read_bytes = (bytes + bytes / 4).clamp(LEAST_READ_BYTES, MAX_READ_BYTES);
    }

    /// At the end of readable records: if another segment was begun, this one does not grow any
    /// more.
    fn skip_torn_segment(&mut self, batch: &mut JournalBatch, last: bool) {
        if let Some(next) = next_segment(&self.directory, batch.next.segment) {
            batch.end = false;
            // It may have grown between the read and the creation of the next segment. Only now its
            // length is final. Damaged bytes stay damaged.
            let seen = batch.next.offset + batch.bytes.len() as u64;
            let length =
                self.segment.as_ref().and_then(|(_, file)| file.metadata().ok()).map(|meta| meta.len());
            if batch.damaged || length.is_none_or(|length| length <= seen) {
                batch.next = Cursor { segment: next, offset: 0, number: batch.next.number };
            }
        } else if last {
            self.segment = None;
        }
    }

    /// Skips a missing segment if later ones exist. The gap in the record numbers reports it.
    fn skip_missing_segment(&self, batch: &mut JournalBatch) {
        if let Some(segment) = next_segment(&self.directory, batch.next.segment) {
            batch.next = Cursor { segment, offset: 0, number: batch.next.number };
            batch.end = false;
        }
    }

    fn open(&mut self, number: u64) -> io::Result<Option<&File>> {
        if self.segment.as_ref().is_none_or(|(open, _)| *open != number) {
            match subagent_config::regular::open_to_read(&segment_path(&self.directory, number)) {
                Ok(file) => self.segment = Some((number, file)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => self.segment = None,
                Err(error) => return Err(error),
            }
        }
        Ok(self.segment.as_ref().map(|(_, file)| file))
    }
}

fn sealed(json: &[u8]) -> Option<u64> {
    // The type is near the beginning. Most records have another one, and can be long.
    let head = &json[..json.len().min(96)];
    memchr::memmem::find(head, b"\"sealed\"")?;
    let record: JournalRecord<'_> = serde_json::from_slice(json).ok()?;
    (record.t == RecordType::Sealed).then(|| record.body::<Sealed>().map_or(0, |sealed| sealed.next))
}

/// Reads `length` bytes, or fewer at the end of the file.
fn read_at(file: &File, offset: u64, length: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(length);
    while bytes.len() < length {
        let at = offset + bytes.len() as u64;
        let rest = length - bytes.len();
        match rustix::io::pread(file, rustix::buffer::spare_capacity(&mut bytes), at) {
            // The end of the file: a regular file returns fewer bytes only there. The writer may
            // also have truncated an incomplete record.
            Ok(read) if read < rest => break,
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(bytes)
}

/// Returns the numbers and paths of the existing segments.
pub(super) fn segments(directory: &Path) -> impl Iterator<Item = (u64, PathBuf)> {
    std::fs::read_dir(directory).into_iter().flatten().flatten().filter_map(|entry| {
        let path = entry.path();
        let number = path.file_name()?.to_str()?.strip_suffix(".journal")?.parse().ok()?;
        Some((number, path))
    })
}

/// Returns whether the journal continues after this cursor.
pub(crate) fn goes_on(directory: &Path, cursor: Cursor) -> bool {
    segments(directory).any(|(number, path)| {
        let longer = || path.metadata().is_ok_and(|meta| meta.len() > cursor.offset);
        number > cursor.segment || (number == cursor.segment && longer())
    })
}

/// Returns the number of the next existing segment.
fn next_segment(directory: &Path, segment: u64) -> Option<u64> {
    if segment_path(directory, segment + 1).exists() {
        return Some(segment + 1);
    }
    segments(directory).map(|(number, _)| number).filter(|number| *number > segment).min()
}

/// Removes the segments before `segment`. Everything in them must be stored.
pub(crate) fn remove_before(directory: &Path, segment: u64) {
    if subagent_failpoint::sabotaged("segment.keep") {
        return;
    }
    for (_, path) in segments(directory).filter(|(number, _)| *number < segment) {
        let checked = subagent_failpoint::check("segment.before_unlink");
        if let Err(error) = checked.and_then(|()| std::fs::remove_file(&path)) {
            tracing::warn!(path = %path.display(), %error, "a journal segment could not be removed");
        }
        subagent_failpoint::hit("segment.after_unlink");
    }
}

/// Returns the size of the segments after the cursor, in bytes.
pub(crate) fn unread(directory: &Path, cursor: Cursor) -> u64 {
    let length = |path: &Path| std::fs::metadata(path).map_or(0, |meta| meta.len());
    let behind = segments(directory).filter(|(number, _)| *number >= cursor.segment);
    let taken = |number| if number == cursor.segment { cursor.offset } else { 0 };
    behind.map(|(number, path)| length(&path).saturating_sub(taken(number))).sum()
}

/// Returns whether a runtime has begun this segment or a later one.
pub(crate) fn is_begun(directory: &Path, segment: u64) -> bool {
    segments(directory).any(|(number, _)| number >= segment)
}

pub(super) fn segment_path(directory: &Path, number: u64) -> PathBuf {
    directory.join(format!("{number}.journal"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use subagent_protocol::record::Segment;

    fn record(number: u64, t: RecordType, body: &serde_json::Value) -> Vec<u8> {
        let json = serde_json::json!({"n": number, "at": 0, "t": t, "b": body}).to_string();
        let mut bytes = Vec::new();
        codec::encode(json.as_bytes(), &mut bytes);
        bytes
    }

    fn noise(number: u64) -> Vec<u8> {
        record(number, RecordType::Noise, &serde_json::json!({"text": "x".repeat(100)}))
    }

    fn start() -> Cursor {
        Cursor { segment: 1, offset: 0, number: 0 }
    }

    /// Reads everything from the cursor on. Returns the record numbers, the last cursor, and
    /// whether there was damage.
    fn read_all(reader: &mut JournalReader, mut cursor: Cursor) -> (Vec<u64>, Cursor, bool) {
        let (mut numbers, mut damaged) = (Vec::new(), false);
        loop {
            let batch = reader.read(cursor, false).unwrap();
            for (range, _) in &batch.records {
                let record: JournalRecord<'_> = serde_json::from_slice(&batch.bytes[range.clone()]).unwrap();
                numbers.push(record.n);
            }
            cursor = batch.next;
            damaged |= batch.damaged;
            if batch.end {
                return (numbers, cursor, damaged);
            }
        }
    }

    #[test]
    fn segments_follow_each_other() {
        let dir = tempfile::tempdir().unwrap();
        let sealed = record(3, RecordType::Sealed, &serde_json::json!({"next": 2}));
        std::fs::write(segment_path(dir.path(), 1), [noise(1), noise(2), sealed].concat()).unwrap();
        std::fs::write(segment_path(dir.path(), 2), noise(4)).unwrap();
        let mut reader = JournalReader::new(dir.path());
        let (numbers, cursor, damaged) = read_all(&mut reader, start());
        assert_eq!((numbers, damaged), (vec![1, 2, 3, 4], false));
        assert_eq!((cursor.segment, cursor.offset), (2, noise(4).len() as u64));
        remove_before(dir.path(), 2);
        assert!(is_begun(dir.path(), 1) && is_begun(dir.path(), 2) && !is_begun(dir.path(), 3));
    }

    #[test]
    fn a_segment_that_grew_before_the_next_was_born_is_read_to_its_end() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(segment_path(dir.path(), 1), noise(1)).unwrap();
        let mut reader = JournalReader::new(dir.path());
        let first = reader.read(start(), false).unwrap();
        let mut at_end = reader.read(first.next, false).unwrap();
        assert!(at_end.end && at_end.records.is_empty());
        // After this read, more is written and another segment is begun.
        std::fs::write(segment_path(dir.path(), 1), [noise(1), noise(2)].concat()).unwrap();
        std::fs::write(segment_path(dir.path(), 2), noise(3)).unwrap();
        reader.skip_torn_segment(&mut at_end, false);
        assert_eq!((at_end.next.segment, at_end.end), (1, false), "it must be looked at again");
        assert_eq!(read_all(&mut reader, at_end.next).0, [2, 3]);
    }

    #[test]
    fn a_torn_record_waits_and_a_damaged_one_ends_its_segment() {
        let dir = tempfile::tempdir().unwrap();
        let torn = noise(2);
        std::fs::write(segment_path(dir.path(), 1), [noise(1), torn[..torn.len() - 5].to_vec()].concat())
            .unwrap();
        let mut reader = JournalReader::new(dir.path());
        let (numbers, cursor, damaged) = read_all(&mut reader, start());
        assert_eq!((numbers, damaged, cursor.offset), (vec![1], false, noise(1).len() as u64));
        let mut broken = noise(2);
        broken[30] ^= 1;
        std::fs::write(segment_path(dir.path(), 1), [noise(1), broken, noise(3)].concat()).unwrap();
        assert!(read_all(&mut reader, start()).2, "damage is told");
        std::fs::write(segment_path(dir.path(), 2), noise(4)).unwrap();
        assert_eq!(read_all(&mut reader, start()).0, [1, 4]);
    }

    #[test]
    fn a_segment_that_was_taken_away_is_passed_over() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(segment_path(dir.path(), 3), noise(9)).unwrap();
        let mut reader = JournalReader::new(dir.path());
        assert_eq!(read_all(&mut reader, start()).0, [9]);
        std::fs::remove_file(segment_path(dir.path(), 3)).unwrap();
        assert_eq!(read_all(&mut JournalReader::new(dir.path()), start()).0, [0u64; 0]);
    }

    #[test]
    fn a_record_larger_than_a_read_is_read_whole() {
        let dir = tempfile::tempdir().unwrap();
        let body = serde_json::json!({"text": "y".repeat(3 * MAX_READ_BYTES)});
        let segment = serde_json::to_value(Segment {
            worker_id: "w_0000000000".parse().unwrap(),
            incarnation: 1,
            segment: 1,
            boot_id: String::new(),
            protocol: 1,
        });
        let bytes = [
            record(1, RecordType::Segment, &segment.unwrap()),
            record(2, RecordType::Update, &body),
            noise(3),
        ];
        std::fs::write(segment_path(dir.path(), 1), bytes.concat()).unwrap();
        assert_eq!(read_all(&mut JournalReader::new(dir.path()), start()).0, [1, 2, 3]);
    }
}
