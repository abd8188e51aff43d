//! Reads the journal of a placed worker as bytes, from a cursor. Sends only complete records of the
//! segment that is being written: a failed write may still be removed from its end.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use subagent_protocol::codec::{self, Decoded};
use subagent_protocol::stream::{CHUNK_BYTES, StreamMessage};

pub(super) struct JournalSource {
    directory: PathBuf,
    segment: u64,
    /// The end of what was sent.
    sent: u64,
    /// The end of the last complete record that was seen, never before `sent`.
    complete: u64,
    file: Option<File>,
}

impl JournalSource {
    pub(super) fn new(directory: &Path, segment: u64, offset: u64) -> Self {
        Self { directory: directory.to_owned(), segment, sent: offset, complete: offset, file: None }
    }

    /// Sends everything that the journal has now. `last` means that its writer is gone, so an
    /// incomplete record is sent as it is.
    ///
    /// # Errors
    ///
    /// The system's error, or that of `send`.
    pub(super) fn pump(
        &mut self,
        last: bool,
        send: &mut impl FnMut(StreamMessage) -> io::Result<()>,
    ) -> io::Result<()> {
        loop {
            // Looked up first: if there is a next one, the length of this one is final.
            let next = next_segment(&self.directory, self.segment);
            if let Some(file) = self.open()? {
                let length = file.metadata()?.len();
                self.send_up_to(length, last || next.is_some(), send)?;
            }
            let Some(next) = next else { return Ok(()) };
            (self.segment, self.sent, self.complete, self.file) = (next, 0, 0, None);
        }
    }

    fn send_up_to(
        &mut self,
        length: u64,
        is_final: bool,
        send: &mut impl FnMut(StreamMessage) -> io::Result<()>,
    ) -> io::Result<()> {
        while self.sent < length
            && let Some(file) = &self.file
        {
            let wanted = usize::try_from(length - self.sent).unwrap_or(CHUNK_BYTES).min(CHUNK_BYTES);
            let mut bytes = vec![0; wanted];
            file.read_exact_at(&mut bytes, self.sent)?;
            if is_final {
                self.complete = length;
            } else {
                self.complete = complete(&bytes, self.sent, self.complete, length);
                let known = usize::try_from(self.complete - self.sent).unwrap_or(wanted);
                bytes.truncate(known);
            }
            if bytes.is_empty() {
                return Ok(());
            }
            let (segment, offset) = (self.segment, self.sent);
            self.sent += bytes.len() as u64;
            send(StreamMessage::Journal { segment, offset, bytes })?;
        }
        Ok(())
    }

    fn open(&mut self) -> io::Result<Option<&File>> {
        if self.file.is_none() {
            match File::open(segment_path(&self.directory, self.segment)) {
                Ok(file) => self.file = Some(file),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(self.file.as_ref())
    }
}

/// Returns the end of the last record that is complete, as far as the headers in `bytes` tell.
/// `bytes` begin at `from`, a record begins at `complete`, and the file ends at `length`.
fn complete(bytes: &[u8], from: u64, mut complete: u64, length: u64) -> u64 {
    loop {
        let at = usize::try_from(complete - from).unwrap_or(usize::MAX);
        let header = at.checked_add(codec::HEADER_BYTES).and_then(|end| bytes.get(at..end));
        let Some(header) = header else { return complete };
        // The header alone is never a whole record.
        let Decoded::Incomplete { needed } = codec::decode(header, codec::MAX_RECORD_BYTES) else {
            return complete;
        };
        let end = complete + needed as u64;
        if end > length {
            return complete;
        }
        complete = end;
    }
}

/// Removes the segments before this one: the daemon has stored them.
pub(super) fn remove_before(directory: &Path, segment: u64) -> io::Result<()> {
    for (number, path) in segments(directory) {
        if number < segment {
            match fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
    }
    Ok(())
}

/// Removes all segments: the daemon has stored what it wants of them. A place whose end the engine has
/// proved may have left some on a disk that the next place has too.
pub(super) fn remove_all(directory: &Path) -> io::Result<()> {
    remove_before(directory, u64::MAX)
}

/// Returns the number of the newest segment.
pub(super) fn newest(directory: &Path) -> Option<u64> {
    segments(directory).map(|(number, _)| number).max()
}

fn next_segment(directory: &Path, segment: u64) -> Option<u64> {
    if segment_path(directory, segment + 1).exists() {
        return Some(segment + 1);
    }
    segments(directory).map(|(number, _)| number).filter(|number| *number > segment).min()
}

fn segments(directory: &Path) -> impl Iterator<Item = (u64, PathBuf)> {
    fs::read_dir(directory).into_iter().flatten().flatten().filter_map(|entry| {
        let path = entry.path();
        let number = path.file_name()?.to_str()?.strip_suffix(".journal")?.parse().ok()?;
        Some((number, path))
    })
}

fn segment_path(directory: &Path, number: u64) -> PathBuf {
    directory.join(format!("{number}.journal"))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn record(length: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        codec::encode(&vec![b'x'; length], &mut bytes);
        bytes
    }

    /// Returns what is sent, by segment. Checks that there are no holes.
    fn pumped(source: &mut JournalSource, last: bool) -> Vec<(u64, u64, Vec<u8>)> {
        let mut sent: Vec<(u64, u64, Vec<u8>)> = Vec::new();
        source
            .pump(last, &mut |message| {
                let StreamMessage::Journal { segment, offset, bytes } = message else { panic!() };
                assert!(bytes.len() <= CHUNK_BYTES);
                match sent.last_mut() {
                    Some((same, from, all)) if *same == segment => {
                        assert_eq!(*from + all.len() as u64, offset);
                        all.extend(bytes);
                    }
                    _ => sent.push((segment, offset, bytes)),
                }
                Ok(())
            })
            .unwrap();
        sent
    }

    #[test]
    fn only_complete_records_of_the_last_segment_are_sent() {
        let folder = tempfile::tempdir().unwrap();
        let mut file = File::create(folder.path().join("1.journal")).unwrap();
        let (small, large) = (record(10), record(3 * CHUNK_BYTES));
        let mut whole = [small.clone(), large.clone()].concat();
        file.write_all(&whole).unwrap();
        file.write_all(&large[..2 * CHUNK_BYTES]).unwrap();
        let mut source = JournalSource::new(folder.path(), 1, 0);
        assert_eq!(pumped(&mut source, false), [(1, 0, whole.clone())]);
        assert_eq!(pumped(&mut source, false), []);
        // The failed write is removed, and another record takes its place.
        file.set_len(whole.len() as u64).unwrap();
        let end = whole.len() as u64;
        whole = [whole, small.clone()].concat();
        fs::write(folder.path().join("1.journal"), &whole).unwrap();
        assert_eq!(pumped(&mut source, false), [(1, end, small)]);
    }

    #[test]
    fn a_final_segment_is_sent_as_it_is_and_the_next_one_follows() {
        let folder = tempfile::tempdir().unwrap();
        let torn = record(100)[..50].to_vec();
        let first = [record(5), torn.clone()].concat();
        fs::write(folder.path().join("4.journal"), &first).unwrap();
        fs::write(folder.path().join("7.journal"), [record(6), torn.clone()].concat()).unwrap();
        let begin = record(5).len() as u64;
        let mut source = JournalSource::new(folder.path(), 4, begin);
        assert_eq!(pumped(&mut source, false), [(4, begin, torn.clone()), (7, 0, record(6))]);
        assert_eq!(pumped(&mut source, true), [(7, record(6).len() as u64, torn)]);
        remove_before(folder.path(), 7).unwrap();
        assert_eq!((newest(folder.path()), next_segment(folder.path(), 0)), (Some(7), Some(7)));
    }

    #[test]
    fn damaged_bytes_wait_for_the_end_of_their_segment() {
        let folder = tempfile::tempdir().unwrap();
        let bytes = [record(5), vec![0; 40]].concat();
        fs::write(folder.path().join("1.journal"), &bytes).unwrap();
        let mut source = JournalSource::new(folder.path(), 1, 0);
        assert_eq!(pumped(&mut source, false), [(1, 0, record(5))]);
        assert_eq!(pumped(&mut source, true), [(1, record(5).len() as u64, vec![0; 40])]);
    }
}
