//! A runtime without its environment, for simulations and for tests of its readers. Decides
//! nothing: it does with values what the driver does between conversation and system.

// Uses the real conversation, line splitter, record encoding and order of effects, without a
// process, file, socket or clock.
//
// Built only with the feature `testing`. The caller plays the system.

use std::time::Duration;

use serde::Deserialize;
use subagent_protocol::definition::Instructions;
use subagent_protocol::frame::{
    ELICITATION, FromRuntime, HIBERNATE, JournalEnd, Refusal, RuntimeHello, ToRuntime,
};
use subagent_protocol::ids::{RequestId, WorkerId};
use subagent_protocol::process::ProcessId;
use subagent_protocol::record::{AgentStarted, RecordType, Segment};
use subagent_protocol::start::Timeouts;
use subagent_protocol::state::Desired;
use subagent_protocol::{MAX_LINE_BYTES, OLDEST_PROTOCOL, PROTOCOL};

use crate::acp::lines::LineSplitter;
use crate::conversation::{
    Conversation, ConversationAction, ConversationConfig, ConversationInput, Cx, Exit, ReplyTo, Storage,
    Timer,
};
use crate::driver::withhold;
use crate::journal::batch::RecordBatch;
use crate::stderr::StderrTail;

/// The parameters of a runtime's start.
#[derive(Debug, Clone)]
pub struct RuntimeSetup {
    /// The worker that this runtime serves.
    pub worker_id: WorkerId,
    /// Counts the runtimes of this worker.
    pub incarnation: u64,
    /// The generation of the daemon that starts it.
    pub generation: u64,
    /// The journal segment that it begins.
    pub segment: u64,
    /// Number of its first record.
    pub first_record: u64,
    /// The last turn that an earlier runtime accepted.
    pub last_turn: u64,
    /// The session to restore; `None` starts a new one.
    pub session: Option<String>,
    /// Deadlines of the conversation.
    pub timeouts: Timeouts,
    /// What the agent's definition adds.
    pub instructions: Option<Instructions>,
}

/// An effect to carry out, in order.
#[derive(Debug, Clone)]
pub enum RuntimeEffect {
    /// Writes a line to the agent.
    ToAgent(Vec<u8>),
    /// Sends a frame to the daemon.
    ToDaemon {
        /// Number of the connection to use.
        connection: u64,
        /// The frame to send.
        frame: FromRuntime,
    },
    /// Closes a connection, because another one is served from now on.
    Close {
        /// Number of the connection to close.
        connection: u64,
    },
    /// Closes the agent's input.
    CloseInput,
    /// Sends SIGTERM to the agent's process group.
    Terminate,
    /// Makes the guard end everything.
    EndTree,
    /// The runtime itself ends.
    Exit,
}

/// The effects of one event: some at once, then the records, then the rest once
/// the records are written.
#[derive(Debug, Clone, Default)]
pub struct EventEffects {
    /// Effects that need no record.
    pub before: Vec<RuntimeEffect>,
    /// The bytes to append to the journal, as one write.
    pub records: Vec<u8>,
    /// Effects that wait for the records.
    pub after: Vec<RuntimeEffect>,
}

/// The runtime under simulation.
pub struct SimulatedRuntime {
    setup: RuntimeSetup,
    conversation: Conversation,
    batch: RecordBatch,
    tail: StderrTail,
    splitter: LineSplitter,
    withheld: Vec<ConversationAction>,
    storage: Storage,
    disk_full: bool,
    abandoned: bool,
    serving: Option<u64>,
    generation: u64,
    end: JournalEnd,
    now: u64,
    timers: Vec<(u64, Timer)>,
}

#[derive(Deserialize)]
struct CommandId {
    id: u64,
}

impl SimulatedRuntime {
    /// Creates a runtime and the head of its journal. `make_request_id` generates request ids.
    pub fn begin(
        setup: RuntimeSetup,
        make_request_id: Box<dyn FnMut() -> Option<RequestId>>,
        now: u64,
    ) -> (Self, EventEffects) {
        let config = ConversationConfig {
            session: setup.session.clone(),
            resume_only: false,
            restore_failures: Vec::new(),
            context: crate::acp::requests::SessionContext {
                cwd: "/workspace".to_owned(),
                instructions: setup.instructions.clone(),
                ..Default::default()
            },
            command: vec!["agent".to_owned()],
            timeouts: setup.timeouts,
            last_turn: setup.last_turn,
            options: subagent_protocol::options::Options::default(),
            login: subagent_protocol::start::Login::default(),
            client_rules: None,
            make_request_id,
        };
        let mut batch = RecordBatch::new(setup.first_record);
        batch.set_time_to(0);
        let head = Segment {
            worker_id: setup.worker_id.clone(),
            incarnation: setup.incarnation,
            segment: setup.segment,
            boot_id: "boot".to_owned(),
            protocol: PROTOCOL,
        };
        batch.push_body(RecordType::Segment, None, &head);
        let end =
            JournalEnd { segment: setup.segment, offset: 0, number: setup.first_record.saturating_sub(1) };
        let mut runtime = Self {
            conversation: Conversation::new(config),
            batch,
            tail: StderrTail::default(),
            splitter: LineSplitter::new(MAX_LINE_BYTES),
            withheld: Vec::new(),
            storage: Storage::Ok,
            disk_full: false,
            abandoned: false,
            serving: None,
            generation: setup.generation,
            end,
            now,
            timers: Vec::new(),
            setup,
        };
        let work = runtime.input(ConversationInput::Begin);
        (runtime, work)
    }

    /// The guard started the agent.
    pub fn agent_started(&mut self) -> EventEffects {
        let guard = ProcessId { pid: 2, start_time: self.setup.incarnation };
        self.input(ConversationInput::AgentStarted(AgentStarted { agent_pid: 3, guard }))
    }

    /// The agent could not be started.
    pub fn spawn_failed(&mut self) -> EventEffects {
        self.input(ConversationInput::SpawnFailed { errno: 2, message: "no such file".to_owned() })
    }

    /// Takes a chunk of the agent's standard output. All lines in it form one piece of work.
    pub fn output(&mut self, bytes: &[u8]) -> EventEffects {
        let mut actions = Vec::new();
        let (conversation, batch, tail) = (&mut self.conversation, &mut self.batch, &self.tail);
        self.splitter.feed(bytes, |line| {
            conversation
                .handle(ConversationInput::Line(line), &mut Cx { batch, actions: &mut actions, tail });
        });
        self.settle(actions)
    }

    /// The agent's standard output ended. Text after the last line end counts as a line.
    pub fn output_ended(&mut self) -> EventEffects {
        let mut actions = Vec::new();
        let (conversation, batch, tail) = (&mut self.conversation, &mut self.batch, &self.tail);
        self.splitter.finish(|line| {
            conversation
                .handle(ConversationInput::Line(line), &mut Cx { batch, actions: &mut actions, tail });
        });
        self.settle(actions)
    }

    /// The agent closed a pipe, but still runs.
    pub fn pipe_closed(&mut self) -> EventEffects {
        self.input(ConversationInput::PipeClosed)
    }

    /// The agent's process ended. All its output was handed in before.
    pub fn agent_exited(&mut self, code: Option<i32>, signal: Option<i32>) -> EventEffects {
        self.input(ConversationInput::AgentExited(Exit { code, signal }))
    }

    /// The guard proved that no process is left.
    pub fn tree_ended(&mut self) -> EventEffects {
        self.input(ConversationInput::TreeEnded { killed: 0, millis: 0 })
    }

    /// The runtime received the signal SIGTERM.
    pub fn terminated(&mut self) -> EventEffects {
        self.input(ConversationInput::End { reason: "SIGTERM".to_owned() })
    }

    /// Takes a line of the command socket. Returns `None` if the line
    /// requires closing the connection.
    pub fn frame(&mut self, connection: u64, line: &[u8]) -> Option<EventEffects> {
        match serde_json::from_slice(line) {
            Ok(ToRuntime::Hello { protocol, generation, desired }) => {
                Some(self.hello(connection, protocol, generation, desired))
            }
            // Frames that an older daemon sent are dropped with its connection.
            Ok(ToRuntime::Command { .. }) if self.serving != Some(connection) => {
                Some(EventEffects::default())
            }
            Ok(ToRuntime::Command { id, command }) => {
                Some(self.input(ConversationInput::Command { to: ReplyTo { connection, id }, command }))
            }
            Err(error) => {
                let CommandId { id } = serde_json::from_slice(line).ok()?;
                let refusal = Some(Refusal::Unknown { message: error.to_string() });
                let frame = FromRuntime::Reply { id, refusal };
                Some(EventEffects {
                    before: vec![RuntimeEffect::ToDaemon { connection, frame }],
                    ..EventEffects::default()
                })
            }
        }
    }

    fn hello(&mut self, connection: u64, protocol: u32, generation: u64, desired: Desired) -> EventEffects {
        let refusal = if protocol < OLDEST_PROTOCOL {
            Some(Refusal::Protocol)
        } else if generation < self.generation {
            Some(Refusal::OldGeneration)
        } else {
            None
        };
        if let Some(refusal) = refusal {
            let frame = FromRuntime::Refused { refusal, generation: self.generation };
            return EventEffects {
                before: vec![RuntimeEffect::ToDaemon { connection, frame }],
                ..EventEffects::default()
            };
        }
        self.generation = generation;
        let before = self.serving.replace(connection).filter(|before| *before != connection);
        let frame = FromRuntime::Hello(Box::new(self.describe()));
        let mut work = match desired {
            Desired::Stop => self
                .input(ConversationInput::End { reason: "the daemon wants this worker stopped".to_owned() }),
            Desired::Run => EventEffects::default(),
        };
        let close = before.map(|connection| RuntimeEffect::Close { connection });
        let first = close.into_iter().chain([RuntimeEffect::ToDaemon { connection, frame }]);
        work.before.splice(0..0, first);
        work
    }

    fn describe(&self) -> RuntimeHello {
        RuntimeHello {
            protocol: PROTOCOL,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            capabilities: vec![ELICITATION.to_owned(), HIBERNATE.to_owned()],
            worker_id: self.setup.worker_id.clone(),
            incarnation: self.setup.incarnation,
            process: ProcessId { pid: 1, start_time: self.setup.incarnation },
            guard: None,
            phase: self.conversation.phase(),
            journal_end: self.end,
            last_turn: self.conversation.last_turn(),
            open_turn: self.conversation.open_turn_as_written(!self.batch.is_empty()),
            open_approvals: self.conversation.open_approvals(),
        }
    }

    /// A connection was closed.
    pub fn closed(&mut self, connection: u64) {
        if self.serving == Some(connection) {
            self.serving = None;
        }
    }

    /// The disk became full or has space again. Retries the waiting records.
    pub fn disk(&mut self, full: bool) -> EventEffects {
        self.disk_full = full;
        self.settle(Vec::new())
    }

    /// Whether the runtime currently reads the agent's output.
    #[must_use]
    pub fn reads_output(&self) -> bool {
        self.storage == Storage::Ok
    }

    /// Sets the wall clock for the following records, in milliseconds since the epoch.
    pub fn set_wall_clock(&mut self, at: i64) {
        self.batch.set_time_to(at);
    }

    /// Advances the clock to `now` (milliseconds). Fires the first timer that is due.
    pub fn elapse(&mut self, now: u64) -> Option<EventEffects> {
        self.now = self.now.max(now);
        let due = self.timers.iter().filter(|(at, _)| *at <= self.now).min_by_key(|(at, _)| *at);
        let timer = due.map(|(_, timer)| *timer)?;
        self.timers.retain(|(_, other)| *other != timer);
        Some(self.input(ConversationInput::Timer(timer)))
    }

    /// Describes the state, for test output.
    #[must_use]
    pub fn describe_state(&self) -> String {
        format!(
            "{:?}, storage {:?}, {} withheld, timers {:?}",
            self.conversation.phase(),
            self.storage,
            self.withheld.len(),
            self.timers
        )
    }

    /// Returns the number of the open turn.
    #[must_use]
    pub fn open_turn(&self) -> Option<u64> {
        self.conversation.open_turn()
    }

    fn input(&mut self, input: ConversationInput<'_>) -> EventEffects {
        let actions = self.handle(input);
        self.settle(actions)
    }

    fn handle(&mut self, input: ConversationInput<'_>) -> Vec<ConversationAction> {
        let mut actions = Vec::new();
        let mut cx = Cx { batch: &mut self.batch, actions: &mut actions, tail: &self.tail };
        self.conversation.handle(input, &mut cx);
        actions
    }

    /// Same order as the driver: effects without records at once, then one write, then the rest.
    fn settle(&mut self, actions: Vec<ConversationAction>) -> EventEffects {
        let mut work = EventEffects::default();
        self.sort(actions, &mut work.before);
        if self.abandoned {
            self.batch.take_back();
        } else if self.disk_full && !self.batch.is_empty() {
            if self.storage == Storage::Ok {
                self.storage_is(Storage::Full, &mut work.before);
            }
            if !self.abandoned {
                return work;
            }
            self.batch.take_back();
        }
        if !self.batch.is_empty() {
            work.records.extend_from_slice(self.batch.bytes());
            self.end.offset += work.records.len() as u64;
            self.end.number = self.batch.next() - 1;
            self.batch.clear();
            if let Some(connection) = self.serving {
                let frame = FromRuntime::End(self.end);
                work.after.push(RuntimeEffect::ToDaemon { connection, frame });
            }
        }
        if self.storage == Storage::Full {
            self.storage_is(Storage::Ok, &mut work.before);
        }
        for action in std::mem::take(&mut self.withheld) {
            self.perform(action, &mut work.after);
        }
        work
    }

    fn storage_is(&mut self, storage: Storage, effects: &mut Vec<RuntimeEffect>) {
        self.storage = storage;
        let actions = self.handle(ConversationInput::Storage(storage));
        self.sort(actions, effects);
    }

    fn sort(&mut self, actions: Vec<ConversationAction>, effects: &mut Vec<RuntimeEffect>) {
        for action in withhold(&mut self.withheld, actions) {
            self.perform(action, effects);
        }
    }

    fn perform(&mut self, action: ConversationAction, effects: &mut Vec<RuntimeEffect>) {
        let serving = self.serving;
        let reply = |to: ReplyTo, refusal: Option<Refusal>| {
            let frame = FromRuntime::Reply { id: to.id, refusal };
            (serving == Some(to.connection))
                .then_some(RuntimeEffect::ToDaemon { connection: to.connection, frame })
        };
        match action {
            ConversationAction::Send(line) => effects.push(RuntimeEffect::ToAgent(line.bytes)),
            ConversationAction::Accept(to) => effects.extend(reply(to, None)),
            ConversationAction::Refuse(to, refusal) => effects.extend(reply(to, Some(refusal))),
            ConversationAction::SetTimer(timer, after) => self.set_timer(timer, after),
            ConversationAction::ClearTimer(timer) => self.timers.retain(|(_, other)| *other != timer),
            ConversationAction::CloseInput => effects.push(RuntimeEffect::CloseInput),
            ConversationAction::Terminate => effects.push(RuntimeEffect::Terminate),
            ConversationAction::EndTree => effects.push(RuntimeEffect::EndTree),
            ConversationAction::AbandonJournal => self.abandoned = true,
            // The simulation carries out no client requests, so they stay open.
            ConversationAction::DropPrompt
            | ConversationAction::Note(_)
            | ConversationAction::Stdout(_)
            | ConversationAction::Call(_)
            | ConversationAction::DropCall(_)
            | ConversationAction::EndCalls => {}
            ConversationAction::Exit => effects.push(RuntimeEffect::Exit),
        }
    }

    fn set_timer(&mut self, timer: Timer, after: Duration) {
        self.timers.retain(|(_, other)| *other != timer);
        let after = u64::try_from(after.as_millis()).unwrap_or(u64::MAX);
        self.timers.push((self.now.saturating_add(after), timer));
    }
}
