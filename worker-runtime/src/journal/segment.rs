//! One file of the journal. Appends completely or not at all, with space reserved behind its end.
//! Does not interpret its content. A full disk causes short writes: a failure leaves the file as it
//! was, or marks it as broken.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, fallocate};
use nix::libc::off_t;

/// Space for essential records, allocated behind every ordinary batch.
pub(super) const RESERVE_BYTES: u64 = 64 * 1024;

/// An open segment file.
#[derive(Debug)]
pub(super) struct SegmentFile {
    file: File,
    number: u64,
    offset: u64,
    /// Blocks are allocated up to this offset.
    reserved: Reserved,
    broken: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reserved {
    UpTo(u64),
    /// The file system cannot reserve space.
    Unsupported,
}

impl SegmentFile {
    /// Creates the file and writes its head. Never touches an existing file.
    ///
    /// # Errors
    ///
    /// The system's error, with the path; no file is left.
    pub(super) fn create(directory: &Path, number: u64, head: &[u8]) -> io::Result<Self> {
        let path = path(directory, number);
        let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
        subagent_failpoint::check("segment.before_create").map_err(named)?;
        let file = OpenOptions::new().append(true).create_new(true).mode(0o600).open(&path).map_err(named)?;
        let mut segment = Self { file, number, offset: 0, reserved: Reserved::UpTo(0), broken: false };
        subagent_failpoint::hit("segment.after_create");
        if let Err(error) = segment.append(head, false) {
            // We have just created it, and no other process knows it.
            let _ = std::fs::remove_file(&path);
            return Err(named(error));
        }
        subagent_failpoint::hit("segment.after_head");
        Ok(segment)
    }

    pub(super) fn number(&self) -> u64 {
        self.number
    }

    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// Whether it ends with an incomplete record.
    pub(super) fn is_broken(&self) -> bool {
        self.broken
    }

    /// Writes through another descriptor from now on.
    #[cfg(test)]
    pub(super) fn write_to(&mut self, file: File) {
        self.file = file;
    }

    /// Appends all of `bytes`. A `critical` append may use the reserve on a full disk.
    ///
    /// # Errors
    ///
    /// The system's error; the file has its former length or is marked as broken.
    pub(super) fn append(&mut self, bytes: &[u8], critical: bool) -> io::Result<()> {
        let end = self.offset + bytes.len() as u64;
        if let Err(error) = self.reserve(end + RESERVE_BYTES) {
            let fits = matches!(self.reserved, Reserved::UpTo(reserved) if end <= reserved);
            if !(critical && fits) {
                return Err(error);
            }
        }
        let written =
            subagent_failpoint::check("journal.before_write").and_then(|()| self.file.write_all(bytes));
        if let Err(error) = written {
            self.cut();
            return Err(error);
        }
        self.offset = end;
        Ok(())
    }

    /// Removes the remains of a failed write.
    fn cut(&mut self) {
        if self.file.set_len(self.offset).is_err() {
            self.broken = true;
            return;
        }
        if let Reserved::UpTo(_) = self.reserved {
            // Truncating freed the blocks behind the end: reserves them again
            // before others use them.
            self.reserved = Reserved::UpTo(self.offset);
            let _ = self.reserve(self.offset + RESERVE_BYTES);
        }
    }

    /// Releases the space behind the end.
    pub(super) fn release_reserve(&mut self) {
        // Only reserved space: keeping it does no harm.
        let _ = self.file.set_len(self.offset);
    }

    fn reserve(&mut self, up_to: u64) -> io::Result<()> {
        let Reserved::UpTo(reserved) = self.reserved else { return Ok(()) };
        if reserved >= up_to {
            return Ok(());
        }
        // Reserves twice what is needed, so that a stream of small batches rarely allocates.
        match self.allocate(up_to + RESERVE_BYTES).or_else(|_| self.allocate(up_to)) {
            Err(Errno::EOPNOTSUPP | Errno::ENOSYS) => {
                self.reserved = Reserved::Unsupported;
                Ok(())
            }
            Err(error) => Err(error.into()),
            Ok(up_to) => {
                self.reserved = Reserved::UpTo(up_to);
                Ok(())
            }
        }
    }

    fn allocate(&self, up_to: u64) -> Result<u64, Errno> {
        subagent_failpoint::check("journal.before_allocate").map_err(|_| Errno::EIO)?;
        let offset = off_t::try_from(self.offset).map_err(|_| Errno::EFBIG)?;
        let length = off_t::try_from(up_to - self.offset).map_err(|_| Errno::EFBIG)?;
        loop {
            match fallocate(&self.file, FallocateFlags::FALLOC_FL_KEEP_SIZE, offset, length) {
                Err(Errno::EINTR) => {}
                Err(error) => return Err(error),
                Ok(()) => return Ok(up_to),
            }
        }
    }
}

/// Returns the path of a segment's file.
pub(super) fn path(directory: &Path, number: u64) -> PathBuf {
    directory.join(format!("{number}.journal"))
}
