//! Inner parts of a runtime, for benches and allocation counts.
//!
//! Built only with the feature `testing`. Must do everything exactly as the driver does.
#![allow(clippy::expect_used, reason = "the measured code must work")]

use std::io;
use std::path::Path;

use serde_json::value::RawValue;
use subagent_protocol::record::RecordType;
use subagent_protocol::start::{RuntimeLimits, Timeouts};

use crate::bare::{RuntimeSetup, SimulatedRuntime};
use crate::journal::{Identity, Journal, JournalLayout};

const WORKER: &str = "w_0000000001";

/// Returns a runtime whose agent has an open turn; its output becomes records.
///
/// # Panics
///
/// Never, as long as a runtime accepts valid responses and prompts.
#[must_use]
pub fn in_turn() -> SimulatedRuntime {
    let setup = RuntimeSetup {
        worker_id: WORKER.parse().expect("an id"),
        incarnation: 1,
        generation: 1,
        segment: 1,
        first_record: 1,
        last_turn: 0,
        session: None,
        timeouts: Timeouts::default(),
        instructions: None,
    };
    let (mut runtime, _) = SimulatedRuntime::begin(setup, Box::new(|| None), 0);
    let _ = runtime.agent_started();
    let _ = runtime.output(
        b"{\"id\":1,\"result\":{\"protocolVersion\":1}}\n{\"id\":2,\"result\":{\"sessionId\":\"s\"}}\n",
    );
    for frame in [
        &br#"{"t":"hello","protocol":1,"generation":1,"desired":"run"}"#[..],
        br#"{"t":"command","id":1,"command":{"c":"prompt","turn":1,"turnId":"turn_0000000001","prompt":[]}}"#,
    ] {
        let _ = runtime.frame(1, frame).expect("a valid frame");
    }
    runtime
}

/// A journal that accepts batches of updates.
#[derive(Debug)]
pub struct Appender(Journal);

impl Appender {
    /// Begins a journal in this folder.
    ///
    /// # Errors
    ///
    /// The system's error of creating it.
    ///
    /// # Panics
    ///
    /// Never: the worker id is valid.
    pub fn begin(folder: &Path) -> io::Result<Self> {
        let limits = RuntimeLimits::default();
        let layout = JournalLayout {
            directory: folder.to_owned(),
            segment: 1,
            first_record: 1,
            segment_bytes: limits.segment_bytes,
            quota_bytes: u64::MAX,
        };
        let identity =
            Identity { worker_id: WORKER.parse().expect("an id"), incarnation: 1, boot_id: String::new() };
        Journal::begin(layout, identity).map(Self)
    }

    /// Appends `records` records with this body as one batch.
    ///
    /// # Errors
    ///
    /// The system's error of writing it.
    pub fn append(&mut self, records: usize, body: &RawValue) -> io::Result<()> {
        self.0.batch.set_time();
        for _ in 0..records {
            self.0.batch.push(RecordType::Update, Some(1), Some("message"), body);
        }
        self.0.commit()
    }
}
