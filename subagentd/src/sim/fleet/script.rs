//! One turn as a real runtime records it: its writes to the journal, and what the rules
//! make of them.

use std::mem::take;

use serde_json::json;
use subagent_core::model::{RuntimeStatus, Worker, WorkerInput};
use subagent_protocol::PROTOCOL;
use subagent_protocol::codec::{self, Decoded};
use subagent_protocol::definition::Instructions;
use subagent_protocol::frame::{RuntimeCommand, ToRuntime};
use subagent_protocol::ids::{RequestId, TurnId, WorkerId};
use subagent_protocol::record::JournalRecord;
use subagent_protocol::start::Timeouts;
use subagent_protocol::state::Desired;
use subagent_runtime::bare::{EventEffects, RuntimeEffect, RuntimeSetup, SimulatedRuntime};
use subagent_testkit::Random;

use super::id_bytes;
use crate::sim::agent::{AgentLog, SimulatedAgent};
use crate::store::Durability;
use crate::supervisor::{SessionUpdates, input, is_progress};

/// The only turn of each worker.
pub(super) const TURN: u64 = 1;
/// The connection between daemon and runtime.
const CONNECTION: u64 = 1;

/// One write of a runtime to its journal.
pub(super) struct JournalWrite {
    /// Number of records in it.
    pub(super) records: usize,
    /// Number of messages on the stream: one with the records, and one for each frame.
    pub(super) messages: u64,
    /// What the records mean to the rules.
    pub(super) inputs: Vec<WorkerInput>,
    /// The durability of the transaction that stores them.
    pub(super) durability: Durability,
}

/// The writes of one turn, and the worker before it.
pub(super) struct TurnScript {
    /// A worker with a session and without a turn.
    pub(super) idle: Worker,
    pub(super) begin: JournalWrite,
    /// A piece of the agent's text.
    pub(super) piece: JournalWrite,
    pub(super) end: JournalWrite,
}

struct ScriptedRuntime {
    runtime: SimulatedRuntime,
    agent: SimulatedAgent,
    deeds: AgentLog,
    random: Random,
}

impl ScriptedRuntime {
    /// Returns what the effects of an event bring to the daemon, and gives the agent its lines.
    fn carry_out(&mut self, effects: EventEffects) -> JournalWrite {
        let EventEffects { before, records, after } = effects;
        let mut write = JournalWrite {
            records: 0,
            messages: u64::from(!records.is_empty()),
            inputs: Vec::new(),
            durability: Durability::Progress,
        };
        for effect in before.into_iter().chain(after) {
            match effect {
                RuntimeEffect::ToAgent(line) => self.agent.inbox.push_back(line),
                RuntimeEffect::ToDaemon { .. } => write.messages += 1,
                other => panic!("a turn has the effect {other:?}"),
            }
        }
        let mut rest = records.as_slice();
        while let Decoded::Record { json, size } = codec::decode(rest, codec::MAX_RECORD_BYTES) {
            let record: JournalRecord<'_> = serde_json::from_slice(json).unwrap();
            let meaning = input(&record, TURN, &mut SessionUpdates::default(), |error| error).unwrap();
            write.inputs.extend(meaning);
            write.records += 1;
            if !is_progress(record.t) {
                write.durability = Durability::Full;
            }
            rest = &rest[size..];
        }
        assert!(rest.is_empty(), "the runtime writes whole records");
        write
    }

    fn frame(&mut self, frame: &ToRuntime) -> JournalWrite {
        let line = serde_json::to_vec(frame).unwrap();
        let effects = self.runtime.frame(CONNECTION, &line).expect("the runtime understands the daemon");
        self.carry_out(effects)
    }

    /// The runtime reads what the agent has written.
    fn output(&mut self) -> Option<JournalWrite> {
        let bytes = take(&mut self.agent.output);
        if bytes.is_empty() {
            return None;
        }
        let effects = self.runtime.output(&bytes);
        Some(self.carry_out(effects))
    }

    /// The agent reads all its input, and the runtime its answers.
    fn talk(&mut self) -> Vec<JournalWrite> {
        let mut writes = Vec::new();
        while self.agent.read(&mut self.deeds, &mut self.random, true) {
            writes.extend(self.output());
        }
        writes
    }
}

/// Records a start and a turn.
pub(super) fn record() -> TurnScript {
    let instructions = Instructions {
        name: "a".to_owned(),
        prompt: "i".to_owned(),
        delivered: false,
        replaces: false,
        model: None,
    };
    let setup = RuntimeSetup {
        worker_id: WorkerId::from_random(id_bytes(0)),
        incarnation: 1,
        generation: 1,
        segment: 1,
        first_record: 1,
        last_turn: 0,
        session: None,
        timeouts: Timeouts::default(),
        instructions: Some(instructions),
    };
    let (runtime, begun) = SimulatedRuntime::begin(setup, Box::new(|| None::<RequestId>), 0);
    let mut random = Random::new(1);
    let agent = SimulatedAgent::new(&mut random);
    let mut script = ScriptedRuntime { runtime, agent, deeds: AgentLog::default(), random };
    let mut started = vec![script.carry_out(begun)];
    let effects = script.runtime.agent_started();
    started.push(script.carry_out(effects));
    started.extend(script.talk());
    let mut idle = Worker { link: RuntimeStatus::Starting, ..Worker::new() };
    for input in started.into_iter().flat_map(|write| write.inputs) {
        idle = idle.step(input).unwrap().worker;
    }
    assert!(idle.rests(), "the agent has no session: {idle:?}");

    script.frame(&ToRuntime::Hello { protocol: PROTOCOL, generation: 1, desired: Desired::Run });
    let command = RuntimeCommand::Prompt {
        turn: TURN,
        turn_id: TurnId::from_random(id_bytes(0)),
        prompt: vec![json!({"type": "text", "text": "go"})],
        attachments: Vec::new(),
        change: None,
    };
    let begin = script.frame(&ToRuntime::Command { id: 1, command });
    assert!(script.talk().is_empty(), "the agent only reads its prompt");
    let text = json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "t"}});
    let update = json!({"method": "session/update", "params": {"sessionId": "s", "update": text}});
    script.agent.output.extend_from_slice(format!("{update}\n").as_bytes());
    let piece = script.output().expect("a piece of text is recorded");
    script.agent.finish(&mut script.deeds);
    let end = script.output().expect("the end of a turn is recorded");
    let durable = [&begin, &piece, &end].map(|write| write.durability);
    assert_eq!(durable, [Durability::Full, Durability::Progress, Durability::Full]);
    TurnScript { idle, begin, piece, end }
}
