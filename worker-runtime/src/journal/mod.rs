//! The journal: what this runtime did and received, written before any process is notified.

// Each batch is one `write(2)`. Nothing is synced: written records survive the death of this
// process, and the boot id in each segment reveals a power loss. Does not know ACP, nor decide
// what a full disk means for a turn.

pub(crate) mod batch;
mod bound;
mod segment;

use std::fs;
use std::io;
use std::path::PathBuf;

use subagent_protocol::frame::JournalEnd;
use subagent_protocol::ids::WorkerId;
use subagent_protocol::record::{RecordType, Sealed, Segment};

use batch::RecordBatch;
use segment::SegmentFile;

/// The header data shared by all segments.
#[derive(Debug, Clone)]
pub(crate) struct Identity {
    /// The worker that owns the journal.
    pub(crate) worker_id: WorkerId,
    /// The worker's runtime that writes it.
    pub(crate) incarnation: u64,
    /// The id of the current boot.
    pub(crate) boot_id: String,
}

/// Location and size limits of a journal.
#[derive(Debug, Clone)]
pub(crate) struct JournalLayout {
    pub(crate) directory: PathBuf,
    /// Number of the first segment.
    pub(crate) segment: u64,
    /// Number of the first record.
    pub(crate) first_record: u64,
    /// A segment above this size is closed.
    pub(crate) segment_bytes: u64,
    /// Maximum size of all existing segments together, in bytes.
    pub(crate) quota_bytes: u64,
}

#[derive(Debug)]
pub(crate) struct Journal {
    layout: JournalLayout,
    identity: Identity,
    /// The records to write next.
    pub(crate) batch: RecordBatch,
    file: SegmentFile,
    /// The current segment accepts no more records. The next one must be created first and
    /// begins with this record.
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
    /// Creates the first segment and writes its head.
    ///
    /// # Errors
    ///
    /// The system's error, with the path.
    pub(crate) fn begin(layout: JournalLayout, identity: Identity) -> io::Result<Self> {
        let first = NextSegment { segment: layout.segment, first_record: layout.first_record };
        let file = begin_segment(&layout, &identity, first)?;
        let batch = RecordBatch::new(first.first_record + 1);
        let over_quota = disk_bytes(&layout)? > layout.quota_bytes;
        Ok(Self { layout, identity, batch, file, next: None, last: first.first_record, over_quota })
    }

    /// Returns the end of the written journal.
    pub(crate) fn end(&self) -> JournalEnd {
        JournalEnd { segment: self.file.number(), offset: self.file.offset(), number: self.last }
    }

    /// Writes the batch. After an error the batch is kept and the file is unchanged: call it again.
    ///
    /// # Errors
    ///
    /// The system's error: the disk is full or broken.
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
        if self.file.offset() >= self.layout.segment_bytes {
            self.seal();
        }
        Ok(())
    }

    /// Continues in the next segment if the tail of a failed write could not be removed,
    /// because readers stop there.
    fn leave_broken(&mut self) {
        if self.file.is_broken() {
            let first_record = self.batch.first();
            self.batch.renumber(first_record + 1);
            self.next = Some(NextSegment { segment: self.file.number() + 1, first_record });
        }
    }

    /// Closes the segment and tries to begin the next one. The next
    /// [`Self::commit`] retries a failure.
    fn seal(&mut self) {
        if subagent_failpoint::check("journal.before_seal").is_err() {
            return;
        }
        let segment = self.file.number() + 1;
        self.batch.push_body(RecordType::Sealed, None, &Sealed { next: segment });
        if self.file.append(self.batch.bytes(), true).is_err() {
            // The segment stays open, longer than intended.
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
        self.file = begin_segment(&self.layout, &self.identity, next)?;
        self.next = None;
        self.last = next.first_record;
        self.over_quota = disk_bytes(&self.layout)? > self.layout.quota_bytes;
        Ok(())
    }

    /// Whether the journal exceeded its quota at the last check.
    pub(crate) fn over_quota(&self) -> bool {
        self.over_quota
    }

    /// Checks again: the daemon deletes segments it has read.
    pub(crate) fn look_at_quota(&mut self) {
        // The watch notices a directory that cannot be listed; nothing changes until then.
        if let Ok(bytes) = disk_bytes(&self.layout) {
            self.over_quota = bytes > self.layout.quota_bytes;
        }
    }
}

fn begin_segment(layout: &JournalLayout, identity: &Identity, next: NextSegment) -> io::Result<SegmentFile> {
    let mut head = RecordBatch::new(next.first_record);
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
    SegmentFile::create(&layout.directory, next.segment, head.bytes())
}

/// Returns the total length of all segments in the directory.
fn disk_bytes(layout: &JournalLayout) -> io::Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(&layout.directory)? {
        let entry = entry?;
        if entry.path().extension().is_some_and(|extension| extension == "journal") {
            // A segment deleted meanwhile takes no space.
            bytes += entry.metadata().map_or(0, |metadata| metadata.len());
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests;
