//! The journal: what this runtime did and heard, written before anyone is told.
//!
//! One `write(2)` per batch. Nothing is synced: what was written survives the death of this process, and a loss of
//! power is told by the boot id in each segment. Must not know ACP or decide what a full disk means for a turn.

pub(crate) mod batch;
mod bound;
mod segment;

use std::fs;
use std::io;
use std::path::PathBuf;

use subagent_protocol::frame::JournalEnd;
use subagent_protocol::ids::WorkerId;
use subagent_protocol::record::{RecordType, Sealed, Segment};

use batch::Batch;
use segment::SegmentFile;

/// What all segments of this journal say of themselves.
#[derive(Debug, Clone)]
pub(crate) struct Identity {
    /// Whose journal it is.
    pub(crate) worker_id: WorkerId,
    /// Which runtime of the worker writes it.
    pub(crate) incarnation: u64,
    /// This boot.
    pub(crate) boot_id: String,
}

/// Where a journal begins, and how large it may get.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    /// The worker's directory.
    pub(crate) directory: PathBuf,
    /// The number of the first segment.
    pub(crate) segment: u64,
    /// The number of the first record.
    pub(crate) first_record: u64,
    /// A segment is closed when it is longer than this.
    pub(crate) segment_bytes: u64,
    /// All segments that still exist may be as long as this together.
    pub(crate) quota_bytes: u64,
}

/// The writer.
#[derive(Debug)]
pub(crate) struct Journal {
    place: Place,
    identity: Identity,
    /// What is to be written next.
    pub(crate) batch: Batch,
    file: SegmentFile,
    /// The current segment takes nothing more; the next one must be made first, beginning with this record.
    next: Option<NextSegment>,
    last: u64,
    over_quota: bool,
}

#[derive(Debug, Clone, Copy)]
struct NextSegment {
    segment: u64,
    first_record: u64,
}

impl Journal {
    /// Makes the first segment and writes its head.
    ///
    /// # Errors
    /// The system's, with the path.
    pub(crate) fn begin(place: Place, identity: Identity) -> io::Result<Self> {
        let first = NextSegment { segment: place.segment, first_record: place.first_record };
        let file = begin_segment(&place, &identity, first)?;
        let batch = Batch::new(first.first_record + 1);
        let over_quota = disk_bytes(&place)? > place.quota_bytes;
        Ok(Self { place, identity, batch, file, next: None, last: first.first_record, over_quota })
    }

    /// Where the journal ends: what is before this is written.
    pub(crate) fn end(&self) -> JournalEnd {
        JournalEnd { segment: self.file.number(), offset: self.file.offset(), number: self.last }
    }

    /// Writes the batch. After an error all of it is kept and nothing of it is in the file: call it again.
    ///
    /// # Errors
    /// The system's: the disk is full or broken.
    pub(crate) fn commit(&mut self) -> io::Result<()> {
        if self.batch.is_empty() {
            return Ok(());
        }
        self.batch.hit_before();
        subagent_failpoint::check("journal.before_append")?;
        self.make_next()?;
        if let Err(error) = self.file.append(self.batch.bytes(), self.batch.is_critical()) {
            self.leave_broken();
            return Err(error);
        }
        self.last = self.batch.next() - 1;
        subagent_failpoint::hit("journal.after_append");
        self.batch.hit_after();
        self.batch.clear();
        if self.file.offset() >= self.place.segment_bytes {
            self.seal();
        }
        Ok(())
    }

    /// Goes on in the next segment if the tail of a failed write could not be removed: a reader stops there.
    fn leave_broken(&mut self) {
        if self.file.is_broken() {
            let first_record = self.batch.first();
            self.batch.renumber(first_record + 1);
            self.next = Some(NextSegment { segment: self.file.number() + 1, first_record });
        }
    }

    /// Ends the segment and tries to begin the next one. What fails is tried again at the next [`Self::commit`].
    fn seal(&mut self) {
        if subagent_failpoint::check("journal.before_seal").is_err() {
            return;
        }
        let segment = self.file.number() + 1;
        self.batch.push_body(RecordType::Sealed, None, &Sealed { next: segment });
        if self.file.append(self.batch.bytes(), true).is_err() {
            // It stays open, longer than it should be.
            self.batch.take_back();
            self.leave_broken();
            return;
        }
        self.last = self.batch.next() - 1;
        self.batch.clear();
        subagent_failpoint::hit("journal.after_seal");
        self.file.release_reserve();
        self.next = Some(NextSegment { segment, first_record: self.batch.skip() });
        let _ = self.make_next();
    }

    fn make_next(&mut self) -> io::Result<()> {
        let Some(next) = self.next else { return Ok(()) };
        self.file = begin_segment(&self.place, &self.identity, next)?;
        self.next = None;
        self.last = next.first_record;
        self.over_quota = disk_bytes(&self.place)? > self.place.quota_bytes;
        Ok(())
    }

    /// Whether there is more of the journal on disk than is allowed, as of the last look.
    pub(crate) fn over_quota(&self) -> bool {
        self.over_quota
    }

    /// Looks again: the daemon deletes what it has taken.
    pub(crate) fn look_at_quota(&mut self) {
        // A directory that cannot be listed is noticed by whoever watches it; until then nothing changes.
        if let Ok(bytes) = disk_bytes(&self.place) {
            self.over_quota = bytes > self.place.quota_bytes;
        }
    }
}

fn begin_segment(place: &Place, identity: &Identity, next: NextSegment) -> io::Result<SegmentFile> {
    let mut head = Batch::new(next.first_record);
    head.push_body(
        RecordType::Segment,
        None,
        &Segment {
            worker_id: identity.worker_id.clone(),
            incarnation: identity.incarnation,
            segment: next.segment,
            boot_id: identity.boot_id.clone(),
            protocol: subagent_protocol::PROTOCOL,
        },
    );
    SegmentFile::create(&place.directory, next.segment, head.bytes())
}

/// How long all segments of the directory are together.
fn disk_bytes(place: &Place) -> io::Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(&place.directory)? {
        let entry = entry?;
        if entry.path().extension().is_some_and(|extension| extension == "journal") {
            // One that was deleted meanwhile takes no room.
            bytes += entry.metadata().map_or(0, |metadata| metadata.len());
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests;
