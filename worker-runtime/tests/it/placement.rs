//! `submit` and `dial` against a real runtime: one runtime for one request, journal bytes before the
//! frames that announce them, proofs of the end, and no late start.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read as _, Write as _};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;
use subagent_protocol::codec::{self, Decoded};
use subagent_protocol::frame::{FromRuntime, RuntimeCommand, ToRuntime};
use subagent_protocol::ids::TurnId;
use subagent_protocol::placement::{SubmitAnswer, SubmitFailure, SubmitRequest};
use subagent_protocol::process::ProcessId;
use subagent_protocol::record::{JournalRecord, RecordType as T};
use subagent_protocol::state::Desired;
use subagent_protocol::stream::{
    DaemonEpoch, STREAM_PROTOCOL, StreamControl, StreamDecoder, StreamHello, StreamMessage, StreamOpen,
    after_magic,
};

use crate::support::{TIMEOUT, WorkerFixture, example, is_alive, until};

/// A worker that is placed in a folder of the fixture.
struct Placed {
    worker: WorkerFixture,
    /// Id of the daemon's start.
    daemon: &'static str,
    /// Whether the daemon knows that the runtime was started.
    is_known: bool,
}

impl Placed {
    fn new() -> Self {
        let mut worker = WorkerFixture::new(&[]);
        // Chosen there.
        worker.start.directory = PathBuf::from("/nonexistent");
        worker.start.socket = PathBuf::from("/nonexistent/socket");
        worker.start.log = PathBuf::from("/nonexistent/log");
        Self { worker, daemon: "daemon", is_known: false }
    }

    fn root(&self) -> PathBuf {
        self.worker.directory.path().join("placed")
    }

    fn folder(&self) -> PathBuf {
        self.root().join(self.worker.start.worker_id.as_str())
    }

    fn command(&self, name: &str) -> Child {
        Command::new(example("runtime"))
            .args([name, self.worker.start.worker_id.as_str()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    fn begin_submit(&self) -> Child {
        let mut child = self.command("submit");
        let request = SubmitRequest {
            shared: false,
            supersede: false,
            protocol: STREAM_PROTOCOL,
            epoch: self.epoch(),
            root: Some(self.root()),
            start: self.worker.start.clone(),
        };
        child.stdin.take().unwrap().write_all(&serde_json::to_vec(&request).unwrap()).unwrap();
        child
    }

    fn epoch(&self) -> DaemonEpoch {
        DaemonEpoch { generation: self.worker.start.generation, start: self.daemon.to_owned() }
    }

    fn submit(&self) -> SubmitAnswer {
        answer(&self.begin_submit().wait_with_output().unwrap())
    }

    fn started(&self) -> ProcessId {
        match self.submit() {
            SubmitAnswer::Started { process, .. } => process,
            other => panic!("{other:?}"),
        }
    }

    fn dial(&self, segment: u64, offset: u64) -> Dial {
        let mut dial = self.open(segment, offset);
        match dial.message() {
            Some(StreamMessage::Control(StreamControl::Hello(hello))) => dial.hello = Some(hello),
            other => panic!("{other:?}"),
        }
        dial
    }

    fn open(&self, segment: u64, offset: u64) -> Dial {
        let start = &self.worker.start;
        let mut child = self.command("dial");
        let mut stdout = child.stdout.take().unwrap();
        let (pieces, received) = mpsc::channel();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(length @ 1..) = stdout.read(&mut buffer) {
                let _ = pieces.send(buffer[..length].to_vec());
            }
        });
        let mut dial = Dial {
            child,
            received,
            decoder: StreamDecoder::behind_banner(),
            hello: None,
            lines: Vec::new(),
            segments: BTreeMap::new(),
            controls: Vec::new(),
        };
        dial.send(&StreamMessage::Control(StreamControl::Open(StreamOpen {
            container_token: None,
            serves_tasks: false,
            is_kept_alive: false,
            protocol: STREAM_PROTOCOL,
            root: Some(self.root()),
            epoch: self.epoch(),
            incarnation: start.incarnation,
            is_known: self.is_known,
            segment,
            offset,
        })));
        dial
    }
}

impl Drop for Placed {
    fn drop(&mut self) {
        // The runtime ends with its lock file, the guard and the agent with the runtime.
        let _ = fs::remove_file(self.folder().join("lock"));
    }
}

fn answer(output: &Output) -> SubmitAnswer {
    let rest = after_magic(&output.stdout).unwrap().unwrap_or_else(|| panic!("{output:?}"));
    serde_json::from_slice(rest).unwrap()
}

/// A `dial` process, and everything that it sent.
struct Dial {
    child: Child,
    received: mpsc::Receiver<Vec<u8>>,
    decoder: StreamDecoder,
    hello: Option<StreamHello>,
    lines: Vec<u8>,
    segments: BTreeMap<u64, (u64, Vec<u8>)>,
    controls: Vec<StreamControl>,
}

impl Dial {
    fn send(&mut self, message: &StreamMessage) {
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        self.child.stdin.as_mut().unwrap().write_all(&bytes).unwrap();
    }

    fn send_frame(&mut self, frame: &ToRuntime) {
        let mut line = serde_json::to_vec(frame).unwrap();
        line.push(b'\n');
        self.send(&StreamMessage::Frames(line));
    }

    /// Returns the next message; `None` at the end.
    fn message(&mut self) -> Option<StreamMessage> {
        loop {
            if let Some(message) = self.decoder.next_message().unwrap() {
                return Some(message);
            }
            match self.received.recv_timeout(TIMEOUT) {
                Ok(bytes) => self.decoder.feed(&bytes),
                Err(mpsc::RecvTimeoutError::Disconnected) => return None,
                Err(mpsc::RecvTimeoutError::Timeout) => panic!("the stream is silent"),
            }
        }
    }

    /// Takes one message. Checks that every announced record arrived before its notice.
    fn step(&mut self) {
        match self.message().unwrap() {
            StreamMessage::Journal { segment, offset, bytes } => {
                let (from, all) = self.segments.entry(segment).or_insert((offset, Vec::new()));
                assert_eq!(*from + all.len() as u64, offset, "journal bytes have a hole");
                all.extend(bytes);
            }
            StreamMessage::Frames(bytes) => self.lines.extend(bytes),
            StreamMessage::Channel { .. } => panic!("no channel was asked for"),
            StreamMessage::Control(control) => self.controls.push(control),
        }
        for frame in self.frames() {
            if let FromRuntime::End(end) = frame {
                let (from, all) = self.segments.get(&end.segment).unwrap();
                assert!(*from + all.len() as u64 >= end.offset, "announced before it was sent: {end:?}");
            }
        }
    }

    fn frames(&self) -> Vec<FromRuntime> {
        let whole = self.lines.split_inclusive(|byte| *byte == b'\n').filter(|line| line.ends_with(b"\n"));
        whole.map(|line| serde_json::from_slice(line).unwrap()).collect()
    }

    fn until(&mut self, mut found: impl FnMut(&Self) -> bool) {
        while !found(self) {
            self.step();
        }
    }

    fn until_record(&mut self, t: T) {
        self.until(|dial| dial.records().iter().any(|(_, found)| *found == t));
    }

    fn until_control(&mut self, wanted: &StreamControl) {
        self.until(|dial| dial.controls.contains(wanted));
    }

    fn records(&self) -> Vec<(u64, T)> {
        let mut records = Vec::new();
        for (_, bytes) in self.segments.values() {
            let mut rest = bytes.as_slice();
            while let Decoded::Record { json, size } = codec::decode(rest, usize::MAX) {
                rest = &rest[size..];
                let record: JournalRecord<'_> = serde_json::from_slice(json).unwrap();
                records.push((record.n, record.t));
            }
        }
        records
    }

    fn greet(&mut self, generation: u64) {
        self.send_frame(&ToRuntime::Hello { protocol: 1, generation, desired: Desired::Run });
    }

    fn order(&mut self, id: u64, command: RuntimeCommand) {
        self.send_frame(&ToRuntime::Command { id, command });
    }

    fn prompt(&mut self, turn: u8, text: &str) {
        let prompt = vec![json!({"type": "text", "text": text})];
        let turn_id = TurnId::from_random([turn; 5]);
        let turn = u64::from(turn);
        self.order(turn, RuntimeCommand::Prompt { turn, turn_id, prompt, attachments: vec![], change: None });
    }

    /// Closes its input, and waits for its end.
    fn close(mut self) -> Option<i32> {
        drop(self.child.stdin.take());
        until("the end of dial", || self.child.try_wait().unwrap()).code()
    }
}

impl Drop for Dial {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_turn_over_the_stream_from_start_to_proof() {
    let placed = Placed::new();
    let process = placed.started();
    assert!(is_alive(process.pid));
    let mut dial = placed.dial(1, 0);
    let hello = dial.hello.clone().unwrap();
    assert!(hello.runtime_lives && hello.guard_lives && hello.segment == Some(1), "{hello:?}");
    dial.greet(placed.worker.start.generation);
    dial.until_record(T::Session);
    dial.prompt(1, "hello");
    dial.until_record(T::TurnEnd);
    dial.order(9, RuntimeCommand::Terminate { reason: "test".to_owned() });
    dial.until_control(&StreamControl::GuardGone);
    let expected = [StreamControl::Closed, StreamControl::RuntimeGone, StreamControl::GuardGone];
    assert_eq!(dial.controls, expected);
    let records = dial.records();
    assert_eq!(records.last().map(|(_, t)| *t), Some(T::Ended));
    assert!(records.iter().zip(1..).all(|((n, _), expected)| *n == expected), "{records:?}");
    until("the end of the runtime", || (!is_alive(process.pid)).then_some(()));
    assert_eq!(dial.close(), Some(0));
}

#[test]
fn the_same_request_twice_gives_one_runtime() {
    let placed = Placed::new();
    let both = [placed.begin_submit(), placed.begin_submit()];
    let answers = both.map(|child| answer(&child.wait_with_output().unwrap()));
    assert!(matches!(answers[0], SubmitAnswer::Started { .. }), "{answers:?}");
    assert_eq!(answers[0], answers[1]);
    assert_eq!(placed.submit(), answers[0]);
}

#[test]
fn a_runtime_that_was_proved_gone_is_not_started_late() {
    let mut placed = Placed::new();
    // The daemon learned that nothing runs before its order arrived.
    let mut dial = placed.dial(1, 0);
    assert!(!dial.hello.as_ref().unwrap().runtime_lives);
    dial.until_control(&StreamControl::GuardGone);
    let refused = |answer| matches!(answer, SubmitAnswer::Failed { reason: SubmitFailure::Superseded, .. });
    assert!(refused(placed.submit()));
    placed.worker.start.incarnation += 1;
    placed.started();
}

#[test]
fn a_journal_that_a_lost_place_left_is_not_in_the_way() {
    let placed = Placed::new();
    fs::create_dir_all(placed.folder()).unwrap();
    let segment = placed.worker.start.segment;
    for old in [segment, segment + 1] {
        fs::write(placed.folder().join(format!("{old}.journal")), "old").unwrap();
    }
    placed.started();
    let mut dial = placed.dial(segment, 0);
    dial.greet(placed.worker.start.generation);
    dial.until_record(T::Session);
    assert!(!placed.folder().join(format!("{}.journal", segment + 1)).exists());
}

#[test]
fn a_place_without_the_folder_of_a_known_runtime_proves_nothing() {
    let mut placed = Placed::new();
    placed.is_known = true;
    let mut dial = placed.open(1, 0);
    assert_eq!(dial.message(), None, "a place that greets counts as reached");
    assert!(!dial.child.wait().unwrap().success());
}

#[test]
fn a_daemon_that_is_older_than_one_that_spoke_is_fenced() {
    let mut placed = Placed::new();
    let generation = placed.worker.start.generation + 1;
    placed.worker.start.generation = generation;
    placed.started();
    let mut older = placed.dial(1, 0);
    older.greet(generation);
    older.until_record(T::Session);
    // A later start takes the place, and the connection of the earlier one ends.
    placed.worker.start.generation = generation + 1;
    let mut newer = placed.dial(1, 0);
    newer.greet(generation + 1);
    newer.until_record(T::Session);
    let fenced = StreamControl::Fenced { generation: generation + 1 };
    older.until_control(&fenced);
    assert!(!older.controls.contains(&StreamControl::Closed), "{:?}", older.controls);
    // Neither a start nor a stream of an older one, nor of another one with the same generation.
    placed.worker.start.incarnation += 1;
    for (generation, start) in [(generation, "daemon"), (generation + 1, "another")] {
        placed.worker.start.generation = generation;
        placed.daemon = start;
        assert!(matches!(placed.submit(), SubmitAnswer::Fenced { .. }));
        placed.open(1, 0).until_control(&fenced);
    }
    // What an older one asked for is not done.
    older.send(&StreamControl::Kill.into());
    older.child.wait().unwrap();
    newer.prompt(1, "hello");
    newer.until_record(T::TurnEnd);
}

#[test]
fn a_later_dial_goes_on_at_its_cursor_and_stored_segments_are_removed() {
    let mut placed = Placed::new();
    placed.worker.start.limits.segment_bytes = 1;
    placed.started();
    let mut first = placed.dial(1, 0);
    first.greet(placed.worker.start.generation);
    first.until_record(T::Session);
    first.prompt(1, "hello");
    first.until_record(T::TurnEnd);
    let segment = first.segments.keys().copied().max().unwrap();
    assert!(segment > 2, "{:?}", first.segments.keys());
    first.send(&StreamControl::Stored { segment }.into());
    let path = placed.folder().join(format!("{}.journal", segment - 1));
    until("the end of a stored segment", || (!path.exists()).then_some(()));
    let seen = first.records();
    // Killed, not closed.
    drop(first);
    let mut second = placed.dial(segment, 0);
    second.greet(placed.worker.start.generation);
    second.prompt(2, "again");
    second.until_record(T::TurnEnd);
    let from = second.records()[0].0;
    assert!(from > 1 && from <= seen.last().unwrap().0 + 1, "{from}");
}

#[test]
fn a_runtime_is_killed_over_the_stream_and_its_guard_ends_the_agent() {
    let placed = Placed::new();
    let process = placed.started();
    let mut dial = placed.dial(1, 0);
    dial.greet(placed.worker.start.generation);
    dial.until_record(T::Session);
    // A runtime that does not answer.
    kill(Pid::from_raw(process.pid), Signal::SIGSTOP).unwrap();
    dial.send(&StreamControl::Kill.into());
    dial.until_control(&StreamControl::GuardGone);
    until("the end of the runtime", || (!is_alive(process.pid)).then_some(()));
    assert!(!dial.records().iter().any(|(_, t)| *t == T::Ended));
}

#[test]
fn foreign_input_ends_a_dial_and_not_the_runtime() {
    let placed = Placed::new();
    let process = placed.started();
    let mut dial = placed.dial(1, 0);
    dial.child.stdin.as_mut().unwrap().write_all(b"ssh: connection reset\n").unwrap();
    let status = until("the end of dial", || dial.child.try_wait().unwrap());
    assert_eq!(status.code(), Some(2));
    assert!(is_alive(process.pid));
}
