//! What a daemon reads from journals and runtimes, damaged: no input panics, hangs or fills the memory, and what came
//! before the damage is kept.

#![allow(clippy::unwrap_used, reason = "all of this file is a test")]

use subagent_protocol::codec;
use subagent_testkit::bytes::{self, attack};
use subagent_testkit::in_own_process;
use subagentd::testing::fuzz;

/// The corpus as a journal, and each of its records alone.
fn journal() -> (Vec<u8>, Vec<Vec<u8>>) {
    let encode = |line: &Vec<u8>| {
        let mut record = Vec::new();
        codec::encode(line.trim_ascii_end(), &mut record);
        record
    };
    let records: Vec<Vec<u8>> = bytes::lines(bytes::RECORDS).iter().map(encode).collect();
    (records.concat(), records)
}

#[test]
fn damage_in_a_journal_spares_what_came_before_and_the_next_segment() {
    in_own_process(|| {
        let directory = tempfile::tempdir().unwrap();
        let (good, records) = journal();
        let all: Vec<u64> = (1..=records.len() as u64).collect();
        assert_eq!(fuzz::journal(directory.path(), &good, None), all);
        let corpus: Vec<Vec<u8>> = records.iter().cloned().chain([good.clone()]).collect();
        let last = &records[records.len() - 1];
        attack(&corpus, |bad| {
            let numbers = fuzz::journal(directory.path(), &[&good[..], bad].concat(), Some(last));
            assert!(numbers.starts_with(&all), "what came before the damage was lost: {numbers:?}");
            assert!(numbers.ends_with(&all[all.len() - 1..]), "the next segment was not read: {numbers:?}");
            fuzz::journal(directory.path(), bad, None);
        });
    });
}

/// The checksum keeps most damage from the readers behind it: here it is right, and the JSON is not.
#[test]
fn the_record_after_a_damaged_one_is_read() {
    in_own_process(|| {
        let directory = tempfile::tempdir().unwrap();
        let (good, records) = journal();
        let lines = bytes::lines(bytes::RECORDS);
        attack(&lines, |bad| {
            let mut record = Vec::new();
            codec::encode(bad, &mut record);
            // A record that says so ends its segment: the other one is in the next.
            let numbers = fuzz::journal(directory.path(), &[&good[..], &record].concat(), Some(&records[0]));
            assert_eq!(
                (numbers[records.len() - 1], numbers.last()),
                (records.len() as u64, Some(&1)),
                "{numbers:?}"
            );
        });
    });
}

#[test]
fn good_frames_of_a_runtime_are_read_among_bad_ones() {
    in_own_process(|| {
        let good = bytes::FROM_RUNTIME;
        let lines = bytes::lines(good);
        assert_eq!(fuzz::frames_of_runtime(good).len(), lines.len());
        let corpus: Vec<Vec<u8>> = lines.iter().cloned().chain([good.to_vec()]).collect();
        attack(&corpus, |bad| {
            let heard = fuzz::frames_of_runtime(&[good, bad].concat());
            assert!(heard.len() >= lines.len(), "what came before the damage was lost");
        });
    });
}
