//! A model of the store's rows of a worker: what each fact writes, and what is read back.

use std::collections::BTreeMap;

use crate::accounts::Account;

use subagent_protocol::ids::{RequestId, TurnId};
use subagent_protocol::state::{ApprovalStatus, Carrier, Dispatched, QuestionKind, TurnStatus};

use crate::model::{
    AgentRequest, Approval, Cancel, Fact, Hibernation, LifecycleState, Parking, Queue, Restart,
    RuntimeStatus, RuntimeTurn, SimulatedTurn, Worker,
};

#[derive(Debug, Clone)]
pub struct CheckedTurn {
    pub id: TurnId,
    pub carrier: Carrier,
    pub status: TurnStatus,
    pub dispatched: Dispatched,
    retried: bool,
    cancel: Option<Cancel>,
}

#[derive(Debug, Clone)]
struct CheckedApproval {
    kind: QuestionKind,
    /// Whether an answer's content is stored.
    content: bool,
    turn: Option<u64>,
    status: ApprovalStatus,
    option_id: Option<String>,
    by_cancel: bool,
    held: bool,
}

#[derive(Debug, Clone)]
pub struct Rows {
    word: &'static str,
    last_turn: u64,
    restart: Restart,
    hibernation: Hibernation,
    parking: Parking,
    pub turns: BTreeMap<u64, CheckedTurn>,
    approvals: BTreeMap<RequestId, CheckedApproval>,
    /// The queued turns, and whether the queue is paused.
    pub queue: Queue,
    /// Turns that left the queue without being opened.
    pub dropped: Vec<TurnId>,
    pub account: Account,
    time: i64,
}

pub(super) fn word(state: &LifecycleState) -> &'static str {
    match state {
        LifecycleState::Starting => "starting",
        LifecycleState::Idle => "idle",
        LifecycleState::Turn(_) => "turn",
        LifecycleState::Local(_) => "local",
        LifecycleState::Stopping(_) => "stopping",
        LifecycleState::Error => "error",
        LifecycleState::Stopped => "stopped",
    }
}

impl Rows {
    pub(super) fn new(worker: &Worker) -> Self {
        Self {
            word: word(&worker.state),
            last_turn: worker.last_turn,
            restart: worker.restart,
            hibernation: worker.hibernation,
            parking: worker.parking,
            turns: BTreeMap::new(),
            approvals: BTreeMap::new(),
            queue: Queue::default(),
            dropped: Vec::new(),
            account: Account::default(),
            time: 0,
        }
    }

    pub(super) fn store(&mut self, worker: &Worker, facts: &[Fact]) {
        for fact in facts {
            self.fact(fact);
        }
        (self.word, self.last_turn) = (word(&worker.state), worker.last_turn);
        (self.restart, self.hibernation) = (worker.restart, worker.hibernation);
        self.parking = worker.parking;
        self.queue.paused = worker.queue.paused;
        // Not stored. The actor knows it.
        self.queue.gated = worker.queue.gated;
    }

    fn fact(&mut self, fact: &Fact) {
        match fact {
            Fact::TurnOpened { no, id, carrier } => {
                let row = CheckedTurn {
                    id: id.clone(),
                    carrier: *carrier,
                    status: TurnStatus::Accepted,
                    dispatched: Dispatched::No,
                    retried: false,
                    cancel: None,
                };
                assert!(self.turns.insert(*no, row).is_none(), "turn {no} was opened twice");
            }
            Fact::TurnQueued { queued, first: true } => self.queue.turns.push_front(queued.turn_id.clone()),
            Fact::TurnQueued { queued, first: false } => self.queue.turns.push_back(queued.turn_id.clone()),
            Fact::TurnUnqueued { id } => {
                self.unqueue(id);
                self.dropped.push(id.clone());
            }
            Fact::QueueOrdered { turns } => {
                let sorted = |turns: Vec<TurnId>| {
                    let mut words: Vec<String> = turns.iter().map(ToString::to_string).collect();
                    words.sort_unstable();
                    words
                };
                let before: Vec<TurnId> = self.queue.turns.iter().cloned().collect();
                assert_eq!(sorted(before), sorted(turns.clone()), "another order of the same");
                self.queue.turns = turns.iter().cloned().collect();
            }
            Fact::QueuedTurnOpened { no, id } => {
                assert_eq!(self.queue.turns.front(), Some(id), "what waits longest is first");
                self.unqueue(id);
                assert!(self.turns.values().all(|row| row.id != *id), "{id} was begun twice");
                self.fact(&Fact::TurnOpened { no: *no, id: id.clone(), carrier: Carrier::Runtime });
            }
            Fact::TurnDispatching { no } => self.turn(*no).dispatched = Dispatched::Maybe,
            Fact::TurnRetried { no } => self.turn(*no).retried = true,
            Fact::TurnCancel { no, cancel } => self.turn(*no).cancel = Some(cancel.clone()),
            Fact::TurnClosed { no, status, dispatched } => {
                let row = self.turn(*no);
                assert_eq!(row.status, TurnStatus::Accepted, "turn {no} was ended twice");
                (row.status, row.dispatched) = (*status, *dispatched);
            }
            Fact::ApprovalOpened { request_id, kind, turn } => {
                let (status, turn) = (ApprovalStatus::Pending, *turn);
                let row = CheckedApproval {
                    kind: *kind,
                    content: false,
                    turn,
                    status,
                    option_id: None,
                    by_cancel: false,
                    held: false,
                };
                self.approvals.insert(request_id.clone(), row);
            }
            Fact::ApprovalHeld { request_id } => {
                self.approvals.get_mut(request_id).expect("only what was opened is held").held = true;
            }
            Fact::ApprovalReleased { request_id } => {
                let row = self.approvals.get_mut(request_id).expect("only what was opened is released");
                assert!(std::mem::take(&mut row.held), "it was hidden");
            }
            Fact::ApprovalDecided { request_id, option_id, content, by_cancel } => {
                let row = self.approvals.get_mut(request_id).expect("only what was opened is decided");
                row.content = content.is_some();
                (row.status, row.option_id, row.by_cancel) =
                    (ApprovalStatus::Decided, option_id.clone(), *by_cancel);
            }
            Fact::ApprovalClosed { request_id, status } => {
                let row = self.approvals.get_mut(request_id).expect("only what was opened is closed");
                (row.status, row.content) = (*status, false);
            }
            Fact::Spent(spent) => {
                self.time += 1_000;
                let _ = self.account.spend(spent, self.time);
            }
            Fact::QueuedAppended { id, .. } => assert!(self.queue.position(id).is_some(), "it waits"),
            Fact::TaskEnding(_)
            | Fact::TaskCause { .. }
            | Fact::Inbox(_)
            | Fact::Event { .. }
            | Fact::MessageSent { .. }
            | Fact::TurnUsed { .. }
            | Fact::LastError(_)
            | Fact::DesiredStop => {}
        }
    }

    /// Returns the statuses of all questions.
    pub fn approvals(&self) -> impl Iterator<Item = (&RequestId, ApprovalStatus)> {
        self.approvals.iter().map(|(request_id, row)| (request_id, row.status))
    }

    /// Returns the questions with stored content.
    pub fn contents(&self) -> impl Iterator<Item = (&RequestId, ApprovalStatus)> {
        self.approvals.iter().filter(|(_, row)| row.content).map(|(request_id, row)| (request_id, row.status))
    }

    /// Returns whether this turn was opened or dropped, or is queued.
    pub fn knows(&self, id: &TurnId) -> bool {
        self.queue.position(id).is_some()
            || self.dropped.contains(id)
            || self.turns.values().any(|row| row.id == *id)
    }

    fn unqueue(&mut self, id: &TurnId) {
        let index = self.queue.position(id).expect("it waits") - 1;
        self.queue.turns.remove(index);
    }

    fn turn(&mut self, no: u64) -> &mut CheckedTurn {
        self.turns.get_mut(&no).expect("only what was opened is changed")
    }

    /// Returns the worker as a restarted daemon reads it.
    pub(super) fn load(&self) -> Worker {
        let mut open = self.turns.iter().filter(|(_, row)| row.status == TurnStatus::Accepted);
        let found = open.next();
        assert!(open.next().is_none(), "two turns are open");
        if let (Some((no, row)), "local") = (found, self.word) {
            assert_eq!(row.carrier, Carrier::Local);
            let mut asked = self.approvals.iter().filter(|(_, row)| row.turn == Some(*no));
            let (request_id, asked) = asked.next().expect("it waits for an answer");
            assert_eq!(asked.status, ApprovalStatus::Pending);
            let local = SimulatedTurn { no: *no, id: row.id.clone(), request_id: request_id.clone() };
            return self.with(LifecycleState::Local(local));
        }
        let turn = found.map(|(no, row)| {
            assert_eq!(row.carrier, Carrier::Runtime);
            RuntimeTurn {
                no: *no,
                id: row.id.clone(),
                dispatching: row.dispatched != Dispatched::No,
                retried: row.retried,
                cancel: row.cancel.clone(),
            }
        });
        self.with(match (self.word, turn) {
            ("starting", None) => LifecycleState::Starting,
            ("idle", None) => LifecycleState::Idle,
            ("turn", Some(turn)) => LifecycleState::Turn(turn),
            ("stopping", turn) => LifecycleState::Stopping(turn),
            ("error", None) => LifecycleState::Error,
            ("stopped", None) => LifecycleState::Stopped,
            (word, turn) => panic!("the rows contradict each other: {word} with {turn:?}"),
        })
    }

    fn with(&self, state: LifecycleState) -> Worker {
        let local = |no: &u64| self.turns[no].carrier == Carrier::Local;
        let approvals = self.approvals.iter().filter(|(_, row)| !row.turn.as_ref().is_some_and(local));
        let approvals = approvals.filter_map(|(id, row)| {
            let approval = match (row.status, row.by_cancel) {
                (ApprovalStatus::Pending, _) if row.held => Approval::Held,
                (ApprovalStatus::Pending, _) => Approval::Pending,
                (ApprovalStatus::Decided, true) => Approval::DecidedByCancel,
                (ApprovalStatus::Decided, false) => Approval::Decided { option_id: row.option_id.clone() },
                _ => return None,
            };
            Some((id.clone(), AgentRequest { kind: row.kind, turn: row.turn, approval }))
        });
        Worker {
            state,
            link: RuntimeStatus::None,
            approvals: approvals.collect(),
            last_turn: self.last_turn,
            known_turn: self.turns.keys().next_back().copied().unwrap_or(0),
            restart: self.restart,
            hibernation: self.hibernation,
            queue: self.queue.clone(),
            parking: self.parking,
        }
    }
}
