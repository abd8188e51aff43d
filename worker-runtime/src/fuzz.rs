//! A runtime's parsers as functions of bytes, for fuzzing and for tests with damaged input. Built
//! only with the feature `testing`. Each function accepts any input and must return. It panics only
//! if its own result is wrong, never because the input is invalid.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a wrong result must stop the test"
)]

use std::os::fd::OwnedFd;

use interprocess::local_socket::tokio::Stream;
use interprocess::os::unix::uds_local_socket::tokio::Stream as UdsStream;
use serde_json::value::RawValue;
use subagent_protocol::codec::{self, Decoded};
use subagent_protocol::frame::{FromRuntime, JournalEnd};
use subagent_protocol::ids::RequestId;
use subagent_protocol::record::{JournalRecord, RecordType};
use subagent_protocol::start::Timeouts;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::{mpsc, watch};

use crate::bare::{EventEffects, RuntimeEffect, RuntimeSetup, SimulatedRuntime};
use crate::socket::{self, ConnectionEvent, EventKind};

/// Maximum bytes per read from the agent.
const CHUNK: usize = 64 * 1024;

/// The agent writes these bytes during a turn. Returns the journal up to that point. Afterwards the
/// agent ends; the journal must then be valid and have its last record.
pub fn agent_output(bytes: &[u8]) -> Vec<u8> {
    let mut asked: u16 = 0;
    let make_request_id = Box::new(move || {
        asked += 1;
        let [low, high] = asked.to_le_bytes();
        Some(RequestId::from_random([low, high, 0, 0, 0]))
    });
    let setup = RuntimeSetup {
        worker_id: "w_0000000001".parse().unwrap(),
        incarnation: 1,
        generation: 1,
        segment: 1,
        first_record: 1,
        last_turn: 0,
        session: None,
        timeouts: Timeouts::default(),
        instructions: None,
    };
    let (mut runtime, work) = SimulatedRuntime::begin(setup, make_request_id, 0);
    runtime.set_wall_clock(0);
    let mut journal = Vec::new();
    let take = |work: EventEffects, journal: &mut Vec<u8>| {
        for effect in work.before.iter().chain(&work.after) {
            if let RuntimeEffect::ToAgent(line) = effect {
                let line = line.strip_suffix(b"\n").expect("a line to the agent has an end");
                assert!(!line.contains(&b'\n') && serde_json::from_slice::<&RawValue>(line).is_ok());
            }
        }
        journal.extend_from_slice(&work.records);
    };
    take(work, &mut journal);
    let work = runtime.agent_started();
    take(work, &mut journal);
    for answer in [
        &br#"{"id":1,"result":{"protocolVersion":1}}"#[..],
        b"\n",
        br#"{"id":2,"result":{"sessionId":"s"}}"#,
        b"\n",
    ] {
        let work = runtime.output(answer);
        take(work, &mut journal);
    }
    for frame in [
        &br#"{"t":"hello","protocol":1,"generation":1,"desired":"run"}"#[..],
        br#"{"t":"command","id":1,"command":{"c":"prompt","turn":1,"turnId":"turn_0000000001","prompt":[]}}"#,
    ] {
        let work = runtime.frame(1, frame).expect("a valid frame");
        take(work, &mut journal);
    }
    for chunk in bytes.chunks(CHUNK) {
        let work = runtime.output(chunk);
        take(work, &mut journal);
    }
    let heard = journal.clone();
    let ends: [fn(&mut SimulatedRuntime) -> EventEffects; 3] = [
        SimulatedRuntime::output_ended,
        |runtime| runtime.agent_exited(Some(0), None),
        SimulatedRuntime::tree_ended,
    ];
    for end in ends {
        let work = end(&mut runtime);
        take(work, &mut journal);
    }
    check_journal(&journal);
    heard
}

fn check_journal(mut bytes: &[u8]) {
    let (mut number, mut last) = (0, None);
    while !bytes.is_empty() {
        let Decoded::Record { json, size } = codec::decode(bytes, codec::MAX_RECORD_BYTES) else {
            panic!("a record that its reader rejects, after {number}");
        };
        let record: JournalRecord<'_> = serde_json::from_slice(json).expect("a record");
        assert_eq!(record.n, number + 1);
        (number, last) = (record.n, Some(record.t));
        bytes = &bytes[size..];
    }
    assert_eq!(last, Some(RecordType::Ended));
}

/// A peer writes these bytes to the command socket and closes its end. Returns the number of
/// accepted commands and of response frames.
pub fn command_socket(bytes: &[u8]) -> (usize, usize) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        for end in [&ours, &theirs] {
            end.set_nonblocking(true).unwrap();
        }
        let stream = UdsStream::try_from(OwnedFd::from(ours)).expect("a socket");
        let stream = Stream::from(stream);
        let (mut from, mut to) = tokio::net::UnixStream::from_std(theirs).unwrap().into_split();
        let (events, mut heard) = mpsc::channel::<ConnectionEvent>(4);
        let end = JournalEnd { segment: 1, offset: 0, number: 0 };
        let (_ends, known) = watch::channel(end);
        let write = async {
            // A peer that is refused is not read to its end.
            let _ = to.write_all(bytes).await;
            drop(to);
        };
        let read = async {
            let mut answers = Vec::new();
            let _ = from.read_to_end(&mut answers).await;
            answers
        };
        let count = async {
            let (mut commands, mut served) = (0, Vec::new());
            while let Some(event) = heard.recv().await {
                match event.kind {
                    EventKind::Hello { out, .. } => served.push(out),
                    EventKind::Command { id, .. } => {
                        commands += 1;
                        for out in &served {
                            let _ = out.send(FromRuntime::Reply { id, refusal: None });
                        }
                    }
                    EventKind::Closed => break,
                }
            }
            commands
        };
        let serve = socket::serve(stream, 1, None, events, known);
        let (_, answers, commands, ()) = tokio::join!(write, read, count, serve);
        let answers: Vec<&[u8]> = answers.split_inclusive(|byte| *byte == b'\n').collect();
        for answer in &answers {
            assert!(serde_json::from_slice::<FromRuntime>(answer).is_ok(), "{}", answer.escape_ascii());
        }
        (commands, answers.len())
    })
}
