//! One simulated worker: stored rows, daemon memory, live processes and journal files.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

use subagent_core::checker::Checker;
use subagent_core::model::WorkerAction;
use subagent_protocol::ids::{RequestId, TurnId};
use subagent_protocol::state::{ApprovalStatus, Dispatched, TurnStatus};
use subagent_runtime::bare;

use super::agent::{AgentLog, SimulatedAgent};
use super::task::SimulatedTask;
use super::world::WorldContext;
use crate::store::Cursor;

/// A connection between daemon and runtime, with frames in transit.
pub(super) struct SimulatedConnection {
    pub(super) id: u64,
    pub(super) to_runtime: VecDeque<Vec<u8>>,
    pub(super) to_daemon: VecDeque<Vec<u8>>,
    /// Whether the hello was delivered.
    pub(super) greeted: bool,
    /// Whether the daemon's end is open.
    pub(super) held: bool,
    /// Whether the runtime's end is closed.
    pub(super) dropped: bool,
}

/// A live runtime and the agent below it.
pub(super) struct Live {
    pub(super) runtime: bare::SimulatedRuntime,
    pub(super) agent: Option<SimulatedAgent>,
    /// Whether the agent's start was reported.
    pub(super) start_reported: bool,
    /// Whether the agent's end was reported.
    pub(super) exit_reported: bool,
    pub(super) connections: Vec<SimulatedConnection>,
}

/// Memory of the daemon, lost with its process.
#[derive(Default)]
pub(super) struct DaemonMemory {
    /// Id of the connection in use.
    pub(super) connection: Option<u64>,
    /// Whether its hello was answered.
    pub(super) greeted: bool,
    /// Commands without an answer, by id.
    pub(super) unanswered: BTreeMap<u64, SimulatedCommand>,
    pub(super) next_id: u64,
    pub(super) todo: VecDeque<WorkerAction>,
    pub(super) settled: bool,
    /// Whether the journal has records that are not ingested.
    pub(super) more: bool,
    /// Whether the daemon knows of a live runtime.
    pub(super) runtime: bool,
    pub(super) damaged: bool,
    pub(super) clean_end: bool,
}

/// The subject of a command.
pub(super) enum SimulatedCommand {
    Prompt(u64),
    Cancel(u64),
    Answer(RequestId),
    Terminate,
    Hibernate,
}

/// Values that the store keeps beside the rules' rows.
pub(super) struct SimulatedStorage {
    pub(super) cursor: Cursor,
    pub(super) incarnation: u64,
    pub(super) may_live: bool,
    pub(super) boot: u64,
    pub(super) session: Option<String>,
    /// Whether the session has received the definition's prompt.
    pub(super) instructed: bool,
    /// Whether the last record is the guard's proof.
    pub(super) proof: bool,
    /// Result of each idempotency key.
    pub(super) keys: BTreeMap<u64, u64>,
    /// Number of executions per key, kept even if the store loses the key.
    pub(super) carried_out: BTreeMap<u64, u32>,
}

/// Results that clients received and remember.
#[derive(Default)]
pub(super) struct ReceivedResults {
    /// Turn of each key.
    pub(super) turns: BTreeMap<u64, u64>,
    /// Decision of each permission request.
    pub(super) decisions: BTreeMap<RequestId, Option<String>>,
    /// End of each turn.
    pub(super) ends: BTreeMap<u64, (TurnStatus, Dispatched)>,
}

/// Requests to the queue.
#[derive(Default)]
pub(super) struct Requests {
    /// Stored result of each key.
    pub(super) keys: BTreeMap<u64, TurnId>,
    pub(super) unanswered: BTreeSet<u64>,
    /// Result of each key as reported to the client.
    pub(super) received: BTreeMap<u64, TurnId>,
}

/// A machine that the daemon reaches through a network.
#[derive(Debug, Default)]
pub(super) struct SimulatedPlace {
    /// Whether nothing passes, in either direction.
    pub(super) is_cut: bool,
    /// How often it has started again.
    pub(super) boots: u64,
}

pub(super) struct Site {
    pub(super) index: usize,
    pub(super) checker: Checker,
    pub(super) stored: SimulatedStorage,
    pub(super) memory: DaemonMemory,
    pub(super) live: Option<Live>,
    /// Processes of a dead runtime that the guard has not ended yet.
    pub(super) left: Option<SimulatedAgent>,
    pub(super) journal: BTreeMap<u64, Vec<u8>>,
    pub(super) deeds: AgentLog,
    pub(super) received: ReceivedResults,
    /// Number of the question of each permission request.
    pub(super) asks: BTreeMap<RequestId, u64>,
    /// Decisions that clients made.
    pub(super) decided: BTreeMap<RequestId, Option<String>>,
    /// Whether the end of a journal may be missing after a power loss.
    pub(super) rebooted: bool,
    pub(super) request_ids: Rc<Cell<u64>>,
    pub(super) next_key: u64,
    pub(super) unanswered_keys: BTreeSet<u64>,
    pub(super) queue: Requests,
    /// Stored state of its task, if it has one.
    pub(super) task: Option<SimulatedTask>,
    /// The machine of its runtime; `None` beside the daemon.
    pub(super) place: Option<SimulatedPlace>,
}

impl Site {
    pub(super) fn new(index: usize, task: Option<SimulatedTask>, place: Option<SimulatedPlace>) -> Self {
        let mut checker = Checker::new();
        checker.worker.queue.gated = task.is_some();
        Self {
            index,
            checker,
            stored: SimulatedStorage {
                cursor: Cursor { segment: 0, offset: 0, number: 0 },
                incarnation: 0,
                may_live: false,
                boot: 0,
                session: None,
                instructed: false,
                proof: false,
                keys: BTreeMap::new(),
                carried_out: BTreeMap::new(),
            },
            memory: DaemonMemory::default(),
            live: None,
            left: None,
            journal: BTreeMap::new(),
            deeds: AgentLog::default(),
            received: ReceivedResults::default(),
            asks: BTreeMap::new(),
            decided: BTreeMap::new(),
            rebooted: false,
            request_ids: Rc::new(Cell::new(0)),
            next_key: 1,
            unanswered_keys: BTreeSet::new(),
            queue: Requests::default(),
            task,
            place,
        }
    }

    /// Whether the daemon reaches nothing of the runtime, its journal and its locks.
    pub(super) fn is_cut(&self) -> bool {
        self.place.as_ref().is_some_and(|place| place.is_cut)
    }

    /// Cuts the network to its machine, or repairs it.
    pub(super) fn set_cut(&mut self, is_cut: bool, env: &mut WorldContext) {
        let Some(place) = &mut self.place else { return };
        if std::mem::replace(&mut place.is_cut, is_cut) != is_cut && is_cut {
            env.tally.cuts += 1;
            // What was sent before may still arrive.
            self.disconnect();
        }
    }

    /// The boot of the machine on which a runtime would start.
    pub(super) fn boot(&self, env: &WorldContext) -> u64 {
        env.boot + self.place.as_ref().map_or(0, |place| place.boots)
    }

    /// Reboots its machine, which has no daemon.
    pub(super) fn reboot_alone(&mut self, env: &mut WorldContext) {
        if env.random.below(10) == 0
            && let Some(place) = &mut self.place
        {
            place.boots += 1;
            env.tally.reboots += 1;
            self.lose_power(env);
        }
    }

    /// Its machine loses power: only files survive, and the end of a journal may be lost.
    pub(super) fn lose_power(&mut self, env: &mut WorldContext) {
        let lived = self.live.take().is_some() | self.left.take().is_some();
        self.rebooted |= lived;
        let Some(mut last) = self.journal.last_entry() else { return };
        let length = last.get().len() as u64;
        match env.random.below(4) {
            0 if lived && self.stored.cursor.segment == *last.key() => {
                last.remove();
            }
            1 | 2 if lived => {
                last.get_mut().truncate(usize::try_from(env.random.below(length + 1)).unwrap());
            }
            _ => {}
        }
    }

    /// Returns the prompt text of a turn.
    pub(super) fn text(&self, turn: u64) -> String {
        format!("worker {} turn {turn}", self.index)
    }

    /// Describes the state for a failed assertion.
    pub(super) fn describe(&self) -> String {
        let (memory, stored) = (&self.memory, &self.stored);
        let live = self.live.as_ref().map(|live| {
            let agent = live.agent.as_ref().map(|agent| (agent.inbox.len(), agent.output.len(), agent.exit));
            format!(
                "turn {:?}, exit told: {}, agent {agent:?}, {} connections, {}",
                live.runtime.open_turn(),
                live.exit_reported,
                live.connections.len(),
                live.runtime.describe_state()
            )
        });
        format!(
            "{:?}\n  stored {:?}, incarnation {}, may live: {}\n  daemon settled: {}, runtime: {}, connection {:?}, more: {}, {} to do\n  live {live:?}, left: {}, journal {:?}",
            self.checker.worker,
            stored.cursor,
            stored.incarnation,
            stored.may_live,
            memory.settled,
            memory.runtime,
            memory.connection,
            memory.more,
            memory.todo.len(),
            self.left.is_some(),
            self.journal.iter().map(|(segment, bytes)| (segment, bytes.len())).collect::<Vec<_>>()
        )
    }

    /// Checks the invariants, after each event.
    pub(super) fn check(&mut self) {
        self.check_task();
        let rows = &self.checker.rows;
        // 1: acknowledged work is stored.
        for (key, turn) in &self.received.turns {
            assert!(rows.turns.contains_key(turn), "turn {turn} of key {key} was accepted and is not stored");
        }
        self.check_queue();
        for (key, times) in &self.stored.carried_out {
            assert!(*times <= 1, "key {key} was carried out {times} times");
        }
        // 3: a turn ends once, finally, and with the true dispatch state of its prompt.
        for (no, row) in &rows.turns {
            let now = (row.status, row.dispatched);
            if let Some(before) = self.received.ends.get(no) {
                assert_eq!(*before, now, "turn {no} ended, and then otherwise");
            }
            if row.status == TurnStatus::Accepted {
                continue;
            }
            self.received.ends.insert(*no, now);
            let text = format!("worker {} turn {no}", self.index);
            let given = self.deeds.prompts.contains_key(&text);
            assert!(
                row.dispatched != Dispatched::No || !given,
                "turn {no} was sent, and the opposite is told"
            );
            if row.status == TurnStatus::Completed
                && row.carrier == subagent_protocol::state::Carrier::Runtime
            {
                assert!(self.deeds.answered.contains(&text), "turn {no} was not completed");
            }
        }
        // 5: no answer is given in the user's name, and reported answers are true.
        for (request_id, status) in rows.approvals() {
            let Some(ask) = self.asks.get(request_id) else { continue };
            let given = self.deeds.answers.get(ask).cloned().flatten();
            let decided = self.decided.get(request_id);
            if let Some(option) = &given {
                assert_eq!(
                    decided,
                    Some(&Some(option.clone())),
                    "{request_id} was answered, but not by a decision"
                );
            }
            if let Some(received) = self.received.decisions.get(request_id) {
                assert!(
                    !matches!(
                        status,
                        ApprovalStatus::Pending | ApprovalStatus::Lost | ApprovalStatus::Canceled
                    ),
                    "{request_id} was decided with {received:?}, and is {status}"
                );
            }
            let over = matches!(
                status,
                ApprovalStatus::Undelivered | ApprovalStatus::Lost | ApprovalStatus::Canceled
            );
            assert!(
                !over || given.is_none() || self.rebooted,
                "{request_id} was answered to the agent, and {status} is told"
            );
        }
        // 6: a stopped worker has no processes left.
        if self.checker.worker.state == subagent_core::model::LifecycleState::Stopped {
            assert!(self.live.is_none() && self.left.is_none(), "stopped, and something is left");
        }
    }
}
