//! The copy of a placed worker's journal in the worker's own folder. The cursor in the database is
//! the truth: each stream begins there and overwrites what follows.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use nix::libc::O_NOFOLLOW;

use crate::store::Cursor;
use crate::supervisor::runtimes::{journal, locks};

/// The copy of one worker. Only the writer of its newest stream may write.
pub(crate) struct Mirror {
    directory: PathBuf,
    newest: Arc<Mutex<u64>>,
}

/// Writes what one stream brings.
pub(in crate::supervisor::runtimes) struct MirrorWriter {
    directory: PathBuf,
    number: u64,
    newest: Arc<Mutex<u64>>,
    segment: Option<(u64, File)>,
    /// The segment and offset of the next byte.
    next: (u64, u64),
}

impl Mirror {
    pub(crate) fn new(directory: &Path) -> Self {
        Self { directory: directory.to_owned(), newest: Arc::default() }
    }

    /// Ends the right of earlier writers, and removes what follows the cursor.
    ///
    /// # Errors
    /// Those of the system.
    pub(in crate::supervisor::runtimes) fn begin(&self, cursor: Cursor) -> io::Result<MirrorWriter> {
        let mut newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        *newest += 1;
        locks::make_directory(&self.directory).map_err(io::Error::other)?;
        for (number, path) in journal::segments(&self.directory) {
            if number > cursor.segment {
                fs::remove_file(&path)?;
            } else if number == cursor.segment && fs::metadata(&path)?.len() > cursor.offset {
                OpenOptions::new()
                    .write(true)
                    .custom_flags(O_NOFOLLOW)
                    .open(&path)?
                    .set_len(cursor.offset)?;
            }
        }
        Ok(MirrorWriter {
            directory: self.directory.clone(),
            number: *newest,
            newest: Arc::clone(&self.newest),
            segment: None,
            next: (cursor.segment, cursor.offset),
        })
    }
}

impl MirrorWriter {
    /// Writes bytes of a segment at their place: the next ones, or the first ones of a later segment.
    ///
    /// # Errors
    /// Those of the system, if a newer stream has begun, and for bytes at another place.
    pub(super) fn write(&mut self, segment: u64, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        if *newest != self.number {
            return Err(io::Error::other("a newer stream has begun"));
        }
        if (segment, offset) != self.next && (segment <= self.next.0 || offset != 0) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the journal has a gap or goes back"));
        }
        self.next = (segment, offset + bytes.len() as u64);
        subagent_failpoint::check("mirror.before_write")?;
        if self.segment.as_ref().is_none_or(|(open, _)| *open != segment) {
            let mut options = OpenOptions::new();
            options.write(true).create(true).truncate(false).mode(0o600).custom_flags(O_NOFOLLOW);
            self.segment = Some((segment, options.open(journal::segment_path(&self.directory, segment))?));
        }
        match &self.segment {
            Some((_, file)) => file.write_all_at(bytes, offset),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_overwrites_from_its_cursor_and_ends_the_one_before() {
        let dir = tempfile::tempdir().unwrap();
        let mirror = Mirror::new(&dir.path().join("w"));
        let cursor = |segment, offset| Cursor { segment, offset, number: 0 };
        let mut first = mirror.begin(cursor(0, 0)).unwrap();
        first.write(1, 0, b"one").unwrap();
        first.write(1, 3, b" torn").unwrap();
        first.write(2, 0, b"two").unwrap();
        let mut second = mirror.begin(cursor(1, 3)).unwrap();
        assert!(first.write(2, 3, b"late").is_err());
        let read = |name: &str| fs::read(dir.path().join("w").join(name)).ok();
        assert_eq!((read("1.journal"), read("2.journal")), (Some(b"one".to_vec()), None));
        second.write(1, 3, b" more").unwrap();
        assert_eq!(read("1.journal").unwrap(), b"one more");
        for (segment, offset) in [(1, 3), (1, 9), (0, 0), (2, 1)] {
            assert!(second.write(segment, offset, b"x").is_err(), "{segment} {offset}");
        }
        second.write(3, 0, b"later").unwrap();
        assert_eq!(read("3.journal").unwrap(), b"later");
    }
}
