//! A runtime without its surroundings, for simulations and for tests of its readers: the real conversation, line
//! splitter, record encoding and order of effects, with no process, file, socket or clock behind them.
//!
//! Built with the feature `testing` alone. It must not decide anything: what the driver does between the conversation
//! and the system is done here with values, and what the system would do is the caller's business.

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
use crate::conversation::{Action, Config, Conversation, Cx, Exit, Input, ReplyTo, Storage, Timer};
use crate::driver::withhold;
use crate::journal::batch::Batch;
use crate::stderr::Tail;

/// What a runtime is told at its start.
#[derive(Debug, Clone)]
pub struct Setup {
    /// Whose runtime it is.
    pub worker_id: WorkerId,
    /// Which one of the worker's runtimes.
    pub incarnation: u64,
    /// The generation of the daemon that starts it.
    pub generation: u64,
    /// The segment of the journal that it begins.
    pub segment: u64,
    /// The number of its first record.
    pub first_record: u64,
    /// The last turn that an earlier runtime took.
    pub last_turn: u64,
    /// The session to restore.
    pub session: Option<String>,
    /// Deadlines.
    pub timeouts: Timeouts,
    /// What the definition of the agent adds.
    pub instructions: Option<Instructions>,
}

/// Something to carry out, in order.
#[derive(Debug, Clone)]
pub enum Effect {
    /// A line goes to the agent.
    ToAgent(Vec<u8>),
    /// A frame goes to the daemon.
    ToDaemon {
        /// Over this connection.
        connection: u64,
        /// What it says.
        frame: FromRuntime,
    },
    /// A connection is closed: another one is served from now on.
    Close {
        /// Which.
        connection: u64,
    },
    /// The agent's input is closed.
    CloseInput,
    /// SIGTERM goes to the agent's group.
    Terminate,
    /// The guard ends everything.
    EndTree,
    /// The runtime ends.
    Exit,
}

/// What follows from one event: some things at once, then the records, and only when those are written the rest.
#[derive(Debug, Clone, Default)]
pub struct Work {
    /// What needs no record.
    pub before: Vec<Effect>,
    /// The bytes to append to the journal, as a whole.
    pub records: Vec<u8>,
    /// What waited for them.
    pub after: Vec<Effect>,
}

/// The runtime.
pub struct Runtime {
    setup: Setup,
    conversation: Conversation,
    batch: Batch,
    tail: Tail,
    splitter: LineSplitter,
    withheld: Vec<Action>,
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
struct OnlyId {
    id: u64,
}

impl Runtime {
    /// A runtime that begins, and the head of its journal. `make_request_id` is its source of ids.
    pub fn begin(
        setup: Setup,
        make_request_id: Box<dyn FnMut() -> Option<RequestId>>,
        now: u64,
    ) -> (Self, Work) {
        let config = Config {
            session: setup.session.clone(),
            resume_only: false,
            restore_failures: Vec::new(),
            place: crate::acp::requests::Place {
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
        let mut batch = Batch::new(setup.first_record);
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
            tail: Tail::default(),
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
        let work = runtime.input(Input::Begin);
        (runtime, work)
    }

    /// The guard started the agent.
    pub fn agent_started(&mut self) -> Work {
        let guard = ProcessId { pid: 2, start_time: self.setup.incarnation };
        self.input(Input::AgentStarted(AgentStarted { agent_pid: 3, guard }))
    }

    /// The agent could not be started.
    pub fn spawn_failed(&mut self) -> Work {
        self.input(Input::SpawnFailed { errno: 2, message: "no such file".to_owned() })
    }

    /// The agent wrote this to its standard output. All lines of it go into one piece of work.
    pub fn output(&mut self, bytes: &[u8]) -> Work {
        let mut actions = Vec::new();
        let (conversation, batch, tail) = (&mut self.conversation, &mut self.batch, &self.tail);
        self.splitter.feed(bytes, |line| {
            conversation.handle(Input::Line(line), &mut Cx { batch, actions: &mut actions, tail });
        });
        self.settle(actions)
    }

    /// The agent's standard output ended; what stands behind its last line end is a line, too.
    pub fn output_ended(&mut self) -> Work {
        let mut actions = Vec::new();
        let (conversation, batch, tail) = (&mut self.conversation, &mut self.batch, &self.tail);
        self.splitter.finish(|line| {
            conversation.handle(Input::Line(line), &mut Cx { batch, actions: &mut actions, tail });
        });
        self.settle(actions)
    }

    /// The agent closed a pipe and is still there.
    pub fn pipe_closed(&mut self) -> Work {
        self.input(Input::PipeClosed)
    }

    /// The agent's process ended, and all that it wrote was handed in.
    pub fn agent_exited(&mut self, code: Option<i32>, signal: Option<i32>) -> Work {
        self.input(Input::AgentExited(Exit { code, signal }))
    }

    /// The guard proved that nothing is left.
    pub fn tree_ended(&mut self) -> Work {
        self.input(Input::TreeEnded { killed: 0, millis: 0 })
    }

    /// SIGTERM.
    pub fn terminated(&mut self) -> Work {
        self.input(Input::End { reason: "SIGTERM".to_owned() })
    }

    /// A line of the command socket, as bytes; `None` when the connection is to be closed for it.
    pub fn frame(&mut self, connection: u64, line: &[u8]) -> Option<Work> {
        match serde_json::from_slice(line) {
            Ok(ToRuntime::Hello { protocol, generation, desired }) => {
                Some(self.hello(connection, protocol, generation, desired))
            }
            // What an older daemon had sent is dropped with its connection.
            Ok(ToRuntime::Command { .. }) if self.serving != Some(connection) => Some(Work::default()),
            Ok(ToRuntime::Command { id, command }) => {
                Some(self.input(Input::Command { to: ReplyTo { connection, id }, command }))
            }
            Err(error) => {
                let OnlyId { id } = serde_json::from_slice(line).ok()?;
                let refusal = Some(Refusal::Unknown { message: error.to_string() });
                let frame = FromRuntime::Reply { id, refusal };
                Some(Work { before: vec![Effect::ToDaemon { connection, frame }], ..Work::default() })
            }
        }
    }

    fn hello(&mut self, connection: u64, protocol: u32, generation: u64, desired: Desired) -> Work {
        let refusal = if protocol < OLDEST_PROTOCOL {
            Some(Refusal::Protocol)
        } else if generation < self.generation {
            Some(Refusal::OldGeneration)
        } else {
            None
        };
        if let Some(refusal) = refusal {
            let frame = FromRuntime::Refused { refusal, generation: self.generation };
            return Work { before: vec![Effect::ToDaemon { connection, frame }], ..Work::default() };
        }
        self.generation = generation;
        let before = self.serving.replace(connection).filter(|before| *before != connection);
        let frame = FromRuntime::Hello(Box::new(self.describe()));
        let mut work = match desired {
            Desired::Stop => {
                self.input(Input::End { reason: "the daemon wants this worker stopped".to_owned() })
            }
            Desired::Run => Work::default(),
        };
        let close = before.map(|connection| Effect::Close { connection });
        let first = close.into_iter().chain([Effect::ToDaemon { connection, frame }]);
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

    /// A connection is over.
    pub fn closed(&mut self, connection: u64) {
        if self.serving == Some(connection) {
            self.serving = None;
        }
    }

    /// The disk is full, or has room again: what waits is tried once more.
    pub fn disk(&mut self, full: bool) -> Work {
        self.disk_full = full;
        self.settle(Vec::new())
    }

    /// Whether it reads what the agent writes.
    #[must_use]
    pub fn reads_output(&self) -> bool {
        self.storage == Storage::Ok
    }

    /// The time of the wall clock for the records that follow, in milliseconds.
    pub fn set_wall_clock(&mut self, at: i64) {
        self.batch.set_time_to(at);
    }

    /// So late it is now; lets the first timer that is due go off.
    pub fn elapse(&mut self, now: u64) -> Option<Work> {
        self.now = self.now.max(now);
        let due = self.timers.iter().filter(|(at, _)| *at <= self.now).min_by_key(|(at, _)| *at);
        let timer = due.map(|(_, timer)| *timer)?;
        self.timers.retain(|(_, other)| *other != timer);
        Some(self.input(Input::Timer(timer)))
    }

    /// How far it is, for people.
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

    /// The turn that is open.
    #[must_use]
    pub fn open_turn(&self) -> Option<u64> {
        self.conversation.open_turn()
    }

    fn input(&mut self, input: Input<'_>) -> Work {
        let actions = self.handle(input);
        self.settle(actions)
    }

    fn handle(&mut self, input: Input<'_>) -> Vec<Action> {
        let mut actions = Vec::new();
        let mut cx = Cx { batch: &mut self.batch, actions: &mut actions, tail: &self.tail };
        self.conversation.handle(input, &mut cx);
        actions
    }

    /// As the driver: what needs no record at once, then one write, then what waited for it.
    fn settle(&mut self, actions: Vec<Action>) -> Work {
        let mut work = Work::default();
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
                work.after.push(Effect::ToDaemon { connection, frame });
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

    fn storage_is(&mut self, storage: Storage, effects: &mut Vec<Effect>) {
        self.storage = storage;
        let actions = self.handle(Input::Storage(storage));
        self.sort(actions, effects);
    }

    fn sort(&mut self, actions: Vec<Action>, effects: &mut Vec<Effect>) {
        for action in withhold(&mut self.withheld, actions) {
            self.perform(action, effects);
        }
    }

    fn perform(&mut self, action: Action, effects: &mut Vec<Effect>) {
        let serving = self.serving;
        let reply = |to: ReplyTo, refusal: Option<Refusal>| {
            let frame = FromRuntime::Reply { id: to.id, refusal };
            (serving == Some(to.connection)).then_some(Effect::ToDaemon { connection: to.connection, frame })
        };
        match action {
            Action::Send(line) => effects.push(Effect::ToAgent(line.bytes)),
            Action::Accept(to) => effects.extend(reply(to, None)),
            Action::Refuse(to, refusal) => effects.extend(reply(to, Some(refusal))),
            Action::SetTimer(timer, after) => self.set_timer(timer, after),
            Action::ClearTimer(timer) => self.timers.retain(|(_, other)| *other != timer),
            Action::CloseInput => effects.push(Effect::CloseInput),
            Action::Terminate => effects.push(Effect::Terminate),
            Action::EndTree => effects.push(Effect::EndTree),
            Action::AbandonJournal => self.abandoned = true,
            // Nothing is behind it that could carry out what an agent asks: its requests stay open.
            Action::DropPrompt
            | Action::Note(_)
            | Action::Stdout(_)
            | Action::Call(_)
            | Action::DropCall(_)
            | Action::EndCalls => {}
            Action::Exit => effects.push(Effect::Exit),
        }
    }

    fn set_timer(&mut self, timer: Timer, after: Duration) {
        self.timers.retain(|(_, other)| *other != timer);
        let after = u64::try_from(after.as_millis()).unwrap_or(u64::MAX);
        self.timers.push((self.now.saturating_add(after), timer));
    }
}
