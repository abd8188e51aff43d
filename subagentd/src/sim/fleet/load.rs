//! All workers with open streams, with or without turns: counts messages, events and commits in a
//! part of a minute.

use std::time::Duration;

use serde_json::json;
use subagent_core::model::{By, Fact, LifecycleState, Worker, WorkerAction, WorkerInput};
use subagent_protocol::data::turns::TurnInput;
use subagent_protocol::ids::TurnId;
use subagent_testkit::Random;

use super::agenda::Agenda;
use super::commits::{CommitCounts, SimulatedWriter, WaitingJob};
use super::script::{JournalWrite, TURN, TurnScript};
use super::{PIECES, id_bytes, keepalive, micros};
use crate::store::Durability;
use crate::supervisor::runtimes::stream::LONGEST_SILENCE;

const SECOND: u64 = 1_000_000;
/// The clock at the begin: later than the last sign of life of each worker.
const BEGIN: u64 = 60 * SECOND;
/// Each worker begins a turn at a time of its own, up to this one.
const END: u64 = BEGIN + 60 * SECOND;
/// From when on is counted: turns of all ages are open.
const COUNTED_FROM: u64 = BEGIN + 25 * SECOND;
/// The time from one piece of a turn to the next, and to its end.
const PIECE_INTERVAL: u64 = SECOND;
/// The way of a message through the network.
const WAY: u64 = SECOND / 1000;
/// Minimum weight of an order in the writer's queue, as in `worker::order`.
const ORDER_WEIGHT: usize = 4;

/// Something that happens to the worker with this number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum StreamEvent {
    /// A client sends a message to the worker.
    Sent(usize),
    /// A write of its turn arrives: the begin, the pieces, the end.
    Arrived(usize, u64),
    /// The daemon looks whether it has heard something.
    Listen(usize),
    /// The daemon looks whether it has said something.
    Say(usize),
}

struct StreamingWorker {
    rules: Worker,
    is_storing: bool,
    keepalive: u64,
    heard: u64,
    said: u64,
}

/// Counts since the begin.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LoadCounts {
    pub(super) messages: u64,
    pub(super) events: u64,
    pub(super) writer: CommitCounts,
}

/// Rates of a fleet in each second.
#[derive(Debug)]
pub(super) struct LoadRates {
    pub(super) messages: f64,
    pub(super) events: f64,
    pub(super) full_jobs: f64,
    pub(super) commits: f64,
}

struct StreamingFleet<'a> {
    script: &'a TurnScript,
    agenda: Agenda<StreamEvent>,
    workers: Vec<StreamingWorker>,
    writer: SimulatedWriter,
    counts: LoadCounts,
}

/// Simulates a minute. `commit` is the duration of a commit.
pub(super) fn simulate(script: &TurnScript, workers: usize, has_turns: bool, commit: Duration) -> LoadRates {
    let mut random = Random::new(1);
    let mut agenda = Agenda::default();
    let begin = |number: usize| {
        let keepalive = micros(keepalive(number as u64));
        let heard = BEGIN - random.below(keepalive);
        agenda.plan(heard + keepalive, StreamEvent::Listen(number));
        agenda.plan(heard + micros(LONGEST_SILENCE), StreamEvent::Say(number));
        if has_turns {
            agenda.plan(BEGIN + random.below(END - BEGIN), StreamEvent::Sent(number));
        }
        StreamingWorker { rules: script.idle.clone(), is_storing: false, keepalive, heard, said: heard }
    };
    let workers = (0..workers).map(begin).collect();
    let writer = SimulatedWriter::new(commit);
    StreamingFleet { script, agenda, workers, writer, counts: LoadCounts::default() }.run()
}

impl StreamingFleet<'_> {
    fn run(mut self) -> LoadRates {
        let mut before = None;
        loop {
            let of_writer = self.writer.next_time();
            let next = [of_writer, self.agenda.next_time()].into_iter().flatten().min();
            let Some(now) = next.filter(|now| *now < END) else { break };
            if now >= COUNTED_FROM {
                before.get_or_insert_with(|| self.counts());
            }
            if of_writer == Some(now) {
                for job in self.writer.advance(now) {
                    self.is_stored(&job, now);
                }
            } else if let Some(event) = self.agenda.take() {
                self.happen(event, now);
            }
        }
        let (before, after) = (before.unwrap_or_default(), self.counts());
        let seconds = (END - COUNTED_FROM) as f64 / SECOND as f64;
        let rate = |of: fn(&LoadCounts) -> u64| (of(&after) - of(&before)) as f64 / seconds;
        LoadRates {
            messages: rate(|counts| counts.messages),
            events: rate(|counts| counts.events),
            full_jobs: rate(|counts| counts.writer.full_jobs),
            commits: rate(|counts| counts.writer.commits),
        }
    }

    fn counts(&self) -> LoadCounts {
        LoadCounts { writer: self.writer.counts(), ..self.counts }
    }

    fn happen(&mut self, event: StreamEvent, now: u64) {
        match event {
            StreamEvent::Sent(number) => self.send(number, now),
            StreamEvent::Arrived(number, step) => self.arrive(number, step, now),
            StreamEvent::Listen(number) => {
                let worker = &self.workers[number];
                if now >= worker.heard + worker.keepalive {
                    self.ask_for_life(number, now);
                }
                let worker = &self.workers[number];
                self.agenda.plan(worker.heard + worker.keepalive, event);
            }
            StreamEvent::Say(number) => {
                let silence = micros(LONGEST_SILENCE);
                if now >= self.workers[number].said + silence {
                    self.ask_for_life(number, now);
                }
                self.agenda.plan(self.workers[number].said + silence, event);
            }
        }
    }

    /// The daemon sends a `ping`, and the place answers.
    fn ask_for_life(&mut self, number: usize, now: u64) {
        self.counts.messages += 2;
        let worker = &mut self.workers[number];
        (worker.said, worker.heard) = (now, now + 2 * WAY);
    }

    fn send(&mut self, number: usize, now: u64) {
        let input = WorkerInput::Send {
            turn_id: TurnId::from_random(id_bytes(number)),
            message: json!({"text": "go"}),
            input: TurnInput { text: "go".to_owned(), blocks_count: 0, subagent: None },
            by: By::Runtime,
        };
        let step = self.workers[number].rules.step(input).unwrap();
        assert_eq!(step.actions, [WorkerAction::Prompt { turn: TURN }]);
        self.counts.events += events_of(&step.facts);
        let weight = step.facts.len().max(ORDER_WEIGHT);
        self.workers[number].rules = step.worker;
        let durability = Durability::Full;
        self.store(WaitingJob { worker: number, weight, durability, has_records: false }, now);
    }

    /// A commit has ended. After that of a message, the prompt is sent.
    fn is_stored(&mut self, job: &WaitingJob, now: u64) {
        let worker = &mut self.workers[job.worker];
        worker.is_storing = false;
        if !job.has_records {
            self.counts.messages += 1;
            worker.said = now;
            self.agenda.plan(now + 2 * WAY, StreamEvent::Arrived(job.worker, 0));
        }
    }

    /// A write of the turn has arrived in the daemon.
    fn arrive(&mut self, number: usize, step: u64, now: u64) {
        let script = self.script;
        match step {
            0 => self.ingest(number, &script.begin, now),
            step if step <= PIECES => self.ingest(number, &script.piece, now),
            _ => {
                self.ingest(number, &script.end, now);
                assert_eq!(self.workers[number].rules.state, LifecycleState::Idle, "the turn has ended");
                return;
            }
        }
        self.agenda.plan(now + PIECE_INTERVAL, StreamEvent::Arrived(number, step + 1));
    }

    fn ingest(&mut self, number: usize, write: &JournalWrite, now: u64) {
        self.counts.messages += write.messages;
        self.counts.events += write.records as u64;
        let worker = &mut self.workers[number];
        worker.heard = worker.heard.max(now);
        for input in &write.inputs {
            let step = worker.rules.step(input.clone()).unwrap();
            self.counts.events += events_of(&step.facts);
            worker.rules = step.worker;
        }
        let (weight, durability) = (write.records, write.durability);
        self.store(WaitingJob { worker: number, weight, durability, has_records: true }, now);
    }

    fn store(&mut self, job: WaitingJob, now: u64) {
        let is_storing = std::mem::replace(&mut self.workers[job.worker].is_storing, true);
        assert!(!is_storing, "the store is so slow that writes of one worker wait for each other");
        self.writer.push(job, now);
    }
}

/// Number of events among the facts of a step.
fn events_of(facts: &[Fact]) -> u64 {
    facts.iter().filter(|fact| fact.event_type().is_some()).count() as u64
}
