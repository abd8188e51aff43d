//! The journal on real files: written, truncated, closed and held back.

use std::process::Command;

use serde_json::json;
use subagent_protocol::ids::WorkerId;
use subagent_protocol::record::TurnEnd;
use tempfile::TempDir;

use super::batch::reading::{OwnedRecord, records};
use super::batch::to_raw;
use super::*;

fn identity() -> Identity {
    Identity { worker_id: WorkerId::from_random([1; 5]), incarnation: 2, boot_id: "boot".to_owned() }
}

fn layout(directory: &TempDir, segment_bytes: u64) -> JournalLayout {
    JournalLayout {
        directory: directory.path().to_owned(),
        segment: 3,
        first_record: 10,
        segment_bytes,
        quota_bytes: 1 << 30,
    }
}

fn push_update(journal: &mut Journal, bytes: usize) {
    let body = to_raw(&json!({"update": "x".repeat(bytes)}));
    journal.batch.push(RecordType::Update, Some(1), Some("plan"), &body);
}

fn read(directory: &TempDir, segment: u64) -> Vec<OwnedRecord> {
    records(&fs::read(segment::path(directory.path(), segment)).unwrap())
}

#[test]
fn segments_follow_each_other_and_numbers_have_no_gap() {
    let directory = TempDir::new().unwrap();
    let mut journal = Journal::begin(layout(&directory, 2000), identity()).unwrap();
    assert_eq!(journal.end().number, 10);
    for _ in 0..10 {
        push_update(&mut journal, 500);
        journal.commit().unwrap();
    }
    let last = journal.end();
    assert!(last.segment > 4, "{last:?}");
    let mut all = Vec::new();
    for segment in 3..=last.segment {
        let of_segment = read(&directory, segment);
        assert_eq!(of_segment[0].t, RecordType::Segment);
        assert_eq!(of_segment[0].body["segment"], segment);
        assert_eq!(of_segment[0].body["bootId"], "boot");
        if segment < last.segment {
            let sealed = of_segment.last().unwrap();
            assert_eq!((sealed.t, &sealed.body["next"]), (RecordType::Sealed, &json!(segment + 1)));
        }
        all.extend(of_segment);
    }
    let numbers: Vec<u64> = all.iter().map(|record| record.n).collect();
    assert_eq!(numbers, (10..=last.number).collect::<Vec<_>>());
    assert_eq!(all.iter().filter(|record| record.t == RecordType::Update).count(), 10);
    let length = fs::metadata(segment::path(directory.path(), last.segment)).unwrap().len();
    assert_eq!(length, last.offset);
}

#[test]
fn a_segment_that_exists_is_not_touched() {
    let directory = TempDir::new().unwrap();
    fs::write(directory.path().join("3.journal"), "precious").unwrap();
    let error = Journal::begin(layout(&directory, 1000), identity()).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
    assert!(error.to_string().contains("3.journal"), "{error}");
    assert_eq!(fs::read(directory.path().join("3.journal")).unwrap(), b"precious");
}

#[test]
fn a_next_segment_that_cannot_be_made_is_made_later() {
    let directory = TempDir::new().unwrap();
    let mut journal = Journal::begin(layout(&directory, 600), identity()).unwrap();
    // A file that blocks the next segment.
    fs::write(directory.path().join("4.journal"), "").unwrap();
    push_update(&mut journal, 500);
    journal.commit().unwrap();
    push_update(&mut journal, 1);
    assert!(journal.commit().is_err());
    assert!(journal.commit().is_err(), "and again");
    fs::remove_file(directory.path().join("4.journal")).unwrap();
    journal.commit().unwrap();
    let numbers =
        |segment| read(&directory, segment).iter().map(|record| (record.n, record.t)).collect::<Vec<_>>();
    assert_eq!(numbers(3), [(10, RecordType::Segment), (11, RecordType::Update), (12, RecordType::Sealed)]);
    assert_eq!(numbers(4), [(13, RecordType::Segment), (14, RecordType::Update)]);
}

#[test]
fn the_quota_counts_remaining_segments() {
    let directory = TempDir::new().unwrap();
    let mut layout = layout(&directory, 1000);
    layout.quota_bytes = 3000;
    let mut journal = Journal::begin(layout, identity()).unwrap();
    while !journal.over_quota() {
        push_update(&mut journal, 900);
        journal.commit().unwrap();
        assert!(journal.end().segment < 20);
    }
    for segment in 3..journal.end().segment {
        fs::remove_file(segment::path(directory.path(), segment)).unwrap();
    }
    journal.look_at_quota();
    assert!(!journal.over_quota());
}

/// A file size limit makes `write` short and then fail, as a full disk does. The limit applies to
/// the whole process, so the test runs itself once more.
#[test]
fn a_full_disk_leaves_whole_records_only() {
    const INSIDE: &str = "SUBAGENT_TEST_FILE_SIZE_LIMIT";
    if std::env::var_os(INSIDE).is_none() {
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "journal::tests::a_full_disk_leaves_whole_records_only", "--nocapture"])
            .env(INSIDE, "1")
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        return;
    }
    use nix::sys::resource::{Resource, setrlimit};
    use nix::sys::signal::{SigSet, Signal};
    // Without this, exceeding the limit kills the process.
    let mut xfsz = SigSet::empty();
    xfsz.add(Signal::SIGXFSZ);
    xfsz.thread_block().unwrap();
    let directory = TempDir::new().unwrap();
    let mut journal = Journal::begin(layout(&directory, 1 << 30), identity()).unwrap();
    let limit = 300_000;
    setrlimit(Resource::RLIMIT_FSIZE, limit, limit).unwrap();
    let mut written = 0;
    loop {
        push_update(&mut journal, 30_000);
        if journal.commit().is_err() {
            break;
        }
        written += 1;
        assert!(written < 20);
    }
    assert!(written >= 3);
    let whole = read(&directory, 3);
    assert_eq!(whole.len(), written + 1, "nothing of the failed batch is in the file");
    assert_eq!(journal.end().offset, fs::metadata(segment::path(directory.path(), 3)).unwrap().len());
    // The end of the turn fits into the reserve.
    assert_eq!(journal.batch.shed(), 1);
    let end = TurnEnd::Answered { stop_reason: None, usage: None, meta: None };
    journal.batch.push_body(RecordType::TurnEnd, Some(1), &end);
    journal.commit().unwrap();
    let last = read(&directory, 3).pop().unwrap();
    assert_eq!((last.t, last.n), (RecordType::TurnEnd, journal.end().number));
}

#[test]
fn nothing_is_appended_after_a_failed_seal() {
    let directory = TempDir::new().unwrap();
    let mut journal = Journal::begin(layout(&directory, 1 << 20), identity()).unwrap();
    push_update(&mut journal, 100);
    journal.commit().unwrap();
    let whole = journal.end();
    let first = segment::path(directory.path(), 3);
    // Half a record, which can neither be completed nor removed.
    journal.file.write_to(fs::File::open(&first).unwrap());
    journal.seal();
    let mut torn = fs::OpenOptions::new().append(true).open(&first).unwrap();
    io::Write::write_all(&mut torn, b"half a rec").unwrap();
    journal.file.write_to(torn);
    for _ in 0..2 {
        push_update(&mut journal, 100);
        journal.commit().unwrap();
    }
    assert_eq!(fs::metadata(&first).unwrap().len(), whole.offset + 10, "it was written to");
    let next = read(&directory, 4);
    let numbers: Vec<u64> = next.iter().map(|record| record.n).collect();
    assert_eq!(numbers, [whole.number + 1, whole.number + 2, whole.number + 3]);
    assert_eq!(next[0].t, RecordType::Segment);
    assert_eq!(journal.end().number, whole.number + 3);
}
