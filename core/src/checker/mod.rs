//! A worker with checks: every step is checked against invariants.

pub(crate) use shape::is_stopped;
use subagent_protocol::Code;
use subagent_protocol::data::EventData;
use subagent_protocol::data::turns::{TurnCanceledEvent, TurnCompleted, TurnFailed};
use subagent_protocol::event::EventType;

use crate::rules::usage::runs;

mod parking;
mod rows;
mod shape;

use std::collections::{BTreeMap, BTreeSet};

use subagent_protocol::ids::{RequestId, TurnId};
use subagent_protocol::state::{ApprovalStatus, Dispatched, QuestionKind, TurnStatus, WorkerState};

use crate::model::{
    Approval, By, Fact, Hibernation, InboxFact, LifecycleState, QuestionInput, QueuePosition, Restart,
    RuntimeStatus, Transition, Worker, WorkerAction, WorkerInput,
};
pub use rows::Rows;
pub use shape::{StateShape, may_follow};

/// Number of the permission request of every simulated turn.
pub const LOCAL: u8 = 99;

/// Returns the id of the request with this number.
#[must_use]
pub fn request(no: u8) -> RequestId {
    RequestId::from_random([no; RequestId::BYTES])
}

/// Returns whether the input may decide permission requests for the owner.
fn decides(input: &WorkerInput) -> bool {
    matches!(
        input,
        WorkerInput::Decide { .. }
            | WorkerInput::DecideByRule { .. }
            | WorkerInput::HooksAnswered { .. }
            | WorkerInput::Violation { .. }
            | WorkerInput::OverBudget { .. }
            | WorkerInput::Answer { .. }
            | WorkerInput::Inbox(_)
            | WorkerInput::Cancel { .. }
            | WorkerInput::EndTask { .. }
            | WorkerInput::Restart { force: true, .. }
            | WorkerInput::Enqueue { urgency: QueuePosition::Steered, .. }
    )
}

/// Returns whether a queued turn was opened.
fn opens_queued(step: &Transition) -> bool {
    step.facts.iter().any(|fact| matches!(fact, Fact::QueuedTurnOpened { .. }))
}

#[derive(Clone)]
pub struct Checker {
    pub worker: Worker,
    pub rows: Rows,
    pub shapes: BTreeSet<StateShape>,
    /// Turns with a `Dispatching` record.
    dispatching: BTreeSet<u64>,
    /// Turns with a `CancelRequested` record.
    cancel_requested: BTreeSet<u64>,
    /// The open permission requests, with their decisions.
    open: BTreeMap<RequestId, Option<Option<String>>>,
    stopped_events: usize,
}

impl Default for Checker {
    fn default() -> Self {
        Self::new()
    }
}

impl Checker {
    pub fn new() -> Self {
        let worker = Worker::new();
        Self {
            rows: Rows::new(&worker),
            shapes: BTreeSet::from([StateShape::of(&worker)]),
            worker,
            dispatching: BTreeSet::new(),
            cancel_requested: BTreeSet::new(),
            open: BTreeMap::new(),
            stopped_events: 0,
        }
    }

    /// Restarts the daemon, which reads the stored state.
    pub fn reload(&mut self) {
        self.worker = self.rows.load();
    }

    pub fn step(&mut self, input: &WorkerInput) -> Result<Vec<WorkerAction>, Code> {
        let result = self.worker.step(input.clone());
        assert_eq!(result, self.worker.step(input.clone()), "the same input gave two results");
        let step = match result {
            Ok(step) => step,
            Err(error) => {
                self.check_error(input, error.code);
                return Err(error.code);
            }
        };
        self.see(input);
        self.check_worker(input, &step);
        self.check_local(input, &step);
        for (index, fact) in step.facts.iter().enumerate() {
            self.check_fact(input, &step, index, fact);
        }
        for action in &step.actions {
            self.check_action(input, &step, action);
        }
        self.rows.store(&step.worker, &step.facts);
        self.worker = step.worker;
        self.shapes.insert(StateShape::of(&self.worker));
        assert_eq!(
            self.rows.load(),
            Worker { link: RuntimeStatus::None, ..self.worker.clone() },
            "what is stored"
        );
        assert!(
            self.rows.contents().all(|(_, status)| status == ApprovalStatus::Decided),
            "what was filled in is kept although the question is over"
        );
        let account = &self.rows.account;
        assert_eq!(account.running(), u64::from(runs(&self.worker)), "whether time counts");
        assert_eq!(account.turns(), self.rows.turns.len() as u64, "each turn counts once");
        let over = self.rows.turns.values().filter(|row| row.dispatched != Dispatched::No);
        let over = over.filter(|row| row.status != TurnStatus::Accepted).count() as u64;
        assert!(account.reported() == over, "what was sent and is over is reported or unknown: {account:?}");
        let local = matches!(self.worker.state, LifecycleState::Local(_)).then(|| request(LOCAL));
        let known: BTreeSet<&RequestId> = self.worker.approvals.keys().chain(&local).collect();
        assert!(self.open.keys().eq(known), "the open permission requests");
        for asked in self.worker.approvals.values() {
            let turn = self.worker.turn().map(|turn| turn.no);
            assert!(asked.turn.is_none() || asked.turn == turn, "a permission request outlives its turn");
        }
        Ok(step.actions)
    }

    fn check_error(&self, input: &WorkerInput, code: Code) {
        let expected: &[Code] = match input {
            WorkerInput::Send { .. } => &[Code::WorkerBusy, Code::WorkerStopped, Code::QueuePaused],
            WorkerInput::Enqueue { .. } => &[Code::WorkerStopped, Code::QueuePaused, Code::QueueFull],
            WorkerInput::DropQueued { .. }
            | WorkerInput::MoveQueued { .. }
            | WorkerInput::AppendQueued { .. } => &[Code::TurnNotQueued],
            WorkerInput::ResumeQueue => &[Code::WorkerStopped],
            WorkerInput::Decide { .. }
            | WorkerInput::DecideByRule { .. }
            | WorkerInput::Answer { .. }
            | WorkerInput::Inbox(_) => &[Code::ApprovalNotFound, Code::ApprovalNotPending],
            WorkerInput::Cancel { turn: None, .. } => &[Code::WorkerNotRunning],
            WorkerInput::Cancel { turn: Some(_), .. } => &[Code::TurnNotOpen],
            WorkerInput::Stop | WorkerInput::GiveUp | WorkerInput::EndTask { .. } => &[],
            WorkerInput::Retire => &[Code::InvalidWorkerState],
            WorkerInput::Restart { .. } => &[Code::WorkerBusy, Code::WorkerStopped],
            _ => &[Code::Internal],
        };
        assert!(expected.contains(&code), "{code} for {input:?} in {:?}", self.worker);
    }

    fn see(&mut self, input: &WorkerInput) {
        let open = self.worker.turn().map(|turn| turn.no);
        match input {
            WorkerInput::Dispatching { turn } if open == Some(*turn) => {
                self.dispatching.insert(*turn);
            }
            WorkerInput::CancelRequested { turn, .. } if open == Some(*turn) => {
                self.cancel_requested.insert(*turn);
            }
            _ => {}
        }
    }

    /// Checks that simulated turns and runtimes do not affect each other.
    fn check_local(&self, input: &WorkerInput, step: &Transition) {
        let simulated = matches!(input, WorkerInput::Send { by: By::Local | By::LocalAsking { .. }, .. });
        assert!(!simulated || step.actions.is_empty(), "a runtime is told of a simulated turn");
        let by_person = matches!(
            input,
            WorkerInput::Decide { .. }
                | WorkerInput::Answer { .. }
                | WorkerInput::Inbox(_)
                | WorkerInput::Cancel { .. }
                | WorkerInput::EndTask { .. }
                | WorkerInput::Stop
                | WorkerInput::GiveUp
                | WorkerInput::Retire
                | WorkerInput::Restart { .. }
                | WorkerInput::Enqueue { urgency: QueuePosition::Steered, .. }
        );
        if matches!(self.worker.state, LifecycleState::Local(_)) && !by_person {
            assert_eq!(step.worker.state, self.worker.state, "a runtime touches a simulated turn");
        }
        if let (LifecycleState::Idle, LifecycleState::Idle) = (&self.worker.state, &step.worker.state) {
            let heard = matches!(input, WorkerInput::Attached { .. });
            assert!(step.worker.last_turn == self.worker.last_turn || simulated || heard);
        }
    }

    fn check_worker(&self, input: &WorkerInput, step: &Transition) {
        let (from, to) = (self.worker.public_state(), step.worker.public_state());
        // The store missed the states in between.
        let jumps = matches!(input, WorkerInput::TurnRecovered { .. })
            && matches!(to, WorkerState::Running | WorkerState::WaitingApproval);
        let goes_on = opens_queued(step)
            && matches!(from, WorkerState::Starting | WorkerState::Canceling)
            && matches!(to, WorkerState::Running | WorkerState::WaitingApproval);
        assert!(may_follow(from, to) || jumps || goes_on, "{from} -> {to}");
        self.check_queue(input, step);
        assert_eq!(to.has_open_turn(), step.worker.open_turn().is_some());
        assert!(step.worker.last_turn >= self.worker.last_turn);
        if is_stopped(&self.worker) {
            assert_eq!(
                (&step.worker, step.facts.len(), step.actions.len()),
                (&self.worker, 0, 0),
                "after the stop"
            );
        }
        if is_stopped(&step.worker) {
            assert!(step.worker.approvals.is_empty());
            assert_eq!(step.worker.link, RuntimeStatus::None);
        }
        self.check_hibernation(input, step);
        parking::check(&self.worker, input, step);
        let stopping =
            |worker: &Worker| matches!(worker.state, LifecycleState::Stopping(_) | LifecycleState::Stopped);
        assert!(!stopping(&self.worker) || stopping(&step.worker), "a stop was undone");
        let desired = step.facts.contains(&Fact::DesiredStop);
        assert_eq!(
            desired,
            stopping(&step.worker) && !stopping(&self.worker),
            "a stop is stored when it is asked for"
        );
    }

    /// Checks that queued turns start when they can, and not before a required check.
    fn check_queue(&self, input: &WorkerInput, step: &Transition) {
        let (before, queue) = (&self.worker.queue, &step.worker.queue);
        assert!(queue.paused.is_none() || !queue.turns.is_empty(), "nothing waits, and it is paused");
        if matches!(step.worker.state, LifecycleState::Idle | LifecycleState::Error) {
            let waits = queue.paused.is_some() || queue.gated || step.worker.is_parked();
            assert!(queue.turns.is_empty() || waits, "it waits for nothing");
        }
        if matches!(step.worker.state, LifecycleState::Stopping(_) | LifecycleState::Stopped) {
            assert!(queue.turns.is_empty(), "it waits for what is over");
        }
        if opens_queued(step) {
            assert!(queue.paused.is_none(), "begun although it is paused");
            assert!(!step.worker.is_parked(), "begun although it is parked");
            let failed = |fact: &Fact| matches!(fact, Fact::TurnClosed { status: TurnStatus::Failed, .. });
            assert!(!step.facts.iter().any(failed), "begun after a turn that failed");
            let resumes = matches!(
                input,
                WorkerInput::ResumeQueue | WorkerInput::Enqueue { urgency: QueuePosition::Resumed, .. }
            );
            assert!(before.paused.is_none() || resumes, "the input does not resume it");
        }
        let has_event = |wanted| step.facts.iter().any(|fact| fact.event_type() == Some(wanted));
        let stops = matches!(input, WorkerInput::Stop | WorkerInput::GiveUp | WorkerInput::Retire);
        assert_eq!(has_event(EventType::QueuePaused), before.paused.is_none() && queue.paused.is_some());
        assert_eq!(
            has_event(EventType::QueueResumed)
                || (stops && before.paused.is_some() && queue.paused.is_none()),
            before.paused.is_some() && queue.paused.is_none()
        );
    }

    /// Checks that hibernation ends nothing that is open, and reports no loss.
    fn check_hibernation(&self, input: &WorkerInput, step: &Transition) {
        let next = &step.worker;
        match next.hibernation {
            Hibernation::None => {}
            Hibernation::Wanted { .. } => {
                assert_eq!(next.restart, Restart::None, "it is to end for two reasons");
            }
            Hibernation::Begun => {
                assert_ne!(next.link, RuntimeStatus::Ready, "it hibernates and takes commands")
            }
        }
        let wanted = |worker: &Worker| matches!(worker.hibernation, Hibernation::Wanted { .. });
        if wanted(next) && !wanted(&self.worker) {
            assert!(matches!(input, WorkerInput::Hibernate { .. }) && self.worker.rests());
            assert!(self.worker.approvals.is_empty() && self.worker.open_turn().is_none());
        }
        let has_event = |wanted| step.facts.iter().any(|fact| fact.event_type() == Some(wanted));
        let begins = next.hibernation == Hibernation::Begun && self.worker.hibernation != Hibernation::Begun;
        let gone = matches!(input, WorkerInput::RuntimeGone { .. });
        assert_eq!(
            has_event(EventType::WorkerHibernated),
            gone && wanted(&self.worker),
            "what is told of it"
        );
        assert!(!begins || has_event(EventType::WorkerHibernated));
        if gone && wanted(&self.worker) && matches!(self.worker.state, LifecycleState::Idle) {
            assert!(!step.facts.iter().any(|fact| matches!(fact, Fact::LastError(_))), "nothing is lost");
            assert_eq!((&next.state, next.hibernation), (&LifecycleState::Idle, Hibernation::Begun));
        }
    }

    fn check_fact(&mut self, input: &WorkerInput, step: &Transition, index: usize, fact: &Fact) {
        let by_person = decides(input);
        match fact {
            Fact::TurnOpened { no, .. } if matches!(input, WorkerInput::TurnRecovered { .. }) => {
                assert!(*no > self.worker.known_turn);
                assert_eq!(self.worker.open_turn(), None);
                assert!(step.actions.is_empty(), "a runtime is told of what it has said itself");
            }
            Fact::TurnOpened { no, .. } => {
                assert!(matches!(input, WorkerInput::Send { .. } | WorkerInput::Enqueue { .. }));
                assert_eq!(*no, self.worker.last_turn + 1);
                assert_eq!(self.worker.open_turn(), None);
            }
            Fact::QueuedTurnOpened { no, id } => {
                assert_eq!(*no, self.worker.last_turn + 1);
                let open = self.worker.open_turn();
                let ends = |fact: &Fact| matches!(fact, Fact::TurnClosed { .. });
                assert!(open.is_none() || step.facts[..index].iter().any(ends), "two turns are open");
                assert_eq!(step.worker.open_turn(), Some(id));
            }
            Fact::TurnQueued { queued, .. } => {
                let busy = !matches!(self.worker.state, LifecycleState::Idle | LifecycleState::Error);
                let queue = &self.worker.queue;
                // The turn is opened in the same step.
                let parked = self.worker.is_parked();
                let waits = opens_queued(step) || queue.paused.is_some() || queue.gated || parked;
                assert!(busy || waits, "it could be begun");
                assert!(self.worker.queue.position(&queued.turn_id).is_none());
            }
            Fact::TurnUnqueued { .. } => {
                let known = matches!(
                    input,
                    WorkerInput::DropQueued { .. }
                        | WorkerInput::EndTask { .. }
                        | WorkerInput::Stop
                        | WorkerInput::GiveUp
                        | WorkerInput::Retire
                        | WorkerInput::TurnRecovered { .. }
                );
                assert!(known, "the input does not drop it");
            }
            Fact::QueuedAppended { .. } => assert!(matches!(input, WorkerInput::AppendQueued { .. })),
            Fact::TaskEnding(_) => assert!(matches!(input, WorkerInput::EndTask { .. })),
            Fact::TaskCause { .. } => {
                let known = matches!(
                    input,
                    WorkerInput::EndTask { .. }
                        | WorkerInput::Violation { .. }
                        | WorkerInput::OverBudget { .. }
                        | WorkerInput::Inbox(QuestionInput::Expired { .. })
                );
                assert!(known, "nothing ends a task early");
            }
            Fact::QueueOrdered { .. } => assert!(matches!(input, WorkerInput::MoveQueued { .. })),
            Fact::TurnDispatching { no } => {
                self.dispatching.insert(*no);
            }
            Fact::TurnRetried { no } => {
                assert!(matches!(input, WorkerInput::RuntimeGone { rebooted: false, .. }));
                assert_ne!(self.worker.restart, Restart::Wanted, "it ended because it was told to");
                assert!(
                    !self.dispatching.contains(no),
                    "a second runtime for a prompt that may have been written"
                );
                assert!(!self.worker.turn().is_some_and(|turn| turn.retried), "a third runtime for one turn");
            }
            Fact::TurnCancel { no, cancel } => {
                let before =
                    self.worker.turn().filter(|turn| turn.no == *no).and_then(|turn| turn.cancel.as_ref());
                assert!(before.is_none_or(|before| before.reason == cancel.reason), "the first reason stays");
                if cancel.requested {
                    self.cancel_requested.insert(*no);
                }
            }
            Fact::TurnClosed { no, status, dispatched } => {
                self.check_end(step, index, *no, *status, *dispatched);
            }
            Fact::ApprovalOpened { request_id, turn, .. } => {
                let local = matches!(input, WorkerInput::Send { .. }).then_some(step.worker.last_turn);
                let asks = self.worker.turn().filter(|turn| turn.dispatching);
                assert_eq!(*turn, local.or(asks.map(|turn| turn.no)));
                assert!(self.open.insert(request_id.clone(), None).is_none(), "asked twice");
            }
            Fact::ApprovalHeld { request_id } => {
                assert_eq!(self.open.get(request_id), Some(&None), "held after a decision");
            }
            Fact::ApprovalReleased { request_id } => {
                assert_eq!(self.open.get(request_id), Some(&None), "released after a decision");
            }
            Fact::ApprovalDecided { request_id, option_id, .. } => {
                assert!(by_person, "no person decided {request_id}");
                let decided = self.open.get_mut(request_id).expect("it is open");
                assert_eq!(decided.replace(option_id.clone()), None, "decided twice");
            }
            Fact::ApprovalClosed { request_id, status } => {
                let decided = self.open.remove(request_id).expect("a permission request ends once").is_some();
                match status {
                    ApprovalStatus::Lost | ApprovalStatus::Canceled => {
                        assert!(!decided, "{status} after a decision")
                    }
                    ApprovalStatus::Undelivered => assert!(decided),
                    ApprovalStatus::Delivered => {
                        assert!(
                            decided || matches!(input, WorkerInput::AnswerWritten { .. }),
                            "delivered without an answer"
                        );
                    }
                    other => panic!("{other} is no end"),
                }
                assert!(self.turn_of(request_id).is_some());
            }
            Fact::MessageSent { turn, .. } => {
                self.check_event(input, step, index, EventType::MessageSent, Some(*turn));
            }
            Fact::Event { turn, data } => {
                let event_type = data.event_type();
                self.check_event(input, step, index, event_type, *turn);
                let (over, expected) = match data {
                    EventData::ApprovalLost(over) | EventData::ApprovalCanceled(over) => {
                        (over, QuestionKind::Permission)
                    }
                    EventData::ElicitationLost(over) | EventData::ElicitationCanceled(over) => {
                        (over, QuestionKind::Elicitation)
                    }
                    _ => return,
                };
                let kind = self.worker.approvals.get(&over.request_id).map(|asked| asked.kind);
                assert_eq!(kind.unwrap_or(QuestionKind::Permission), expected);
                assert_eq!(self.turn_of(&over.request_id), Some(*turn), "{event_type} of another turn");
            }
            Fact::Inbox(InboxFact::RuleAdded(rule)) => {
                let decided = step.facts[..index].iter().any(|fact| {
                    matches!(fact, Fact::ApprovalDecided { request_id, .. } if *request_id == rule.request_id)
                });
                let local = matches!(&self.worker.state, LifecycleState::Local(_));
                assert!(decided || local, "a rule of a decision that was not made");
            }
            Fact::Inbox(InboxFact::AskedFor { .. })
            | Fact::TurnUsed { .. }
            | Fact::LastError(_)
            | Fact::DesiredStop
            | Fact::Spent(_) => {}
        }
    }

    /// Returns the turn of an open permission request.
    fn turn_of(&self, request_id: &RequestId) -> Option<Option<u64>> {
        match &self.worker.state {
            LifecycleState::Local(local) if local.request_id == *request_id => Some(Some(local.no)),
            _ => self.worker.approvals.get(request_id).map(|asked| asked.turn),
        }
    }

    /// Returns the number and id of the open turn, and whether it may have been canceled.
    fn open_turn(&self, step: &Transition) -> (u64, TurnId, bool) {
        let opened = step.facts.iter().find_map(|fact| match fact {
            Fact::TurnOpened { no, id, .. } => Some((*no, id.clone(), false)),
            _ => None,
        });
        opened.unwrap_or_else(|| match &self.worker.state {
            LifecycleState::Local(local) => (local.no, local.id.clone(), true),
            _ => {
                let turn = self.worker.turn().unwrap();
                let stopping = matches!(self.worker.state, LifecycleState::Stopping(_));
                (turn.no, turn.id.clone(), turn.cancel.is_some() || !stopping)
            }
        })
    }

    fn check_end(
        &self,
        step: &Transition,
        index: usize,
        no: u64,
        status: TurnStatus,
        dispatched: Dispatched,
    ) {
        let end = match status {
            TurnStatus::Completed => EventType::TurnCompleted,
            TurnStatus::Failed => EventType::TurnFailed,
            TurnStatus::Canceled => EventType::TurnCanceled,
            TurnStatus::Accepted => panic!("that is no end"),
        };
        let ends = |fact: &&Fact| fact.event_type().is_some_and(EventType::ends_turn);
        assert_eq!(step.facts.iter().filter(ends).count(), 1, "one event ends a turn");
        let Some(Fact::Event { turn, data }) = step.facts[..index].iter().rev().find(ends) else {
            panic!("the event comes before the fact that refers to it");
        };
        let (open, id, may_be_canceled) = self.open_turn(step);
        assert_eq!((data.event_type(), *turn, open), (end, Some(no), no));
        let (turn_id, error) = match data {
            EventData::TurnCompleted(TurnCompleted { turn_id, .. })
            | EventData::TurnCanceled(TurnCanceledEvent { turn_id, .. }) => (turn_id, None),
            EventData::TurnFailed(TurnFailed { turn_id, error }) => (turn_id, Some(error)),
            other => panic!("{other:?} ends no turn"),
        };
        assert_eq!(*turn_id, id);
        assert_ne!(step.worker.open_turn(), Some(&id), "an ended turn is closed");
        if self.cancel_requested.contains(&no) {
            assert_eq!(status, TurnStatus::Canceled, "after the runtime took the cancel");
        }
        assert!(status != TurnStatus::Canceled || may_be_canceled);
        assert_eq!(dispatched == Dispatched::No, !self.dispatching.contains(&no), "{dispatched}");
        assert!(dispatched != Dispatched::Yes || status == TurnStatus::Completed);
        if let Some(shown) = error.and_then(|error| error.facts().dispatched.0) {
            assert_eq!(shown, dispatched.as_str(), "what is told is what is stored");
        }
    }

    fn check_event(
        &mut self,
        input: &WorkerInput,
        step: &Transition,
        index: usize,
        event_type: EventType,
        turn: Option<u64>,
    ) {
        if let Some(no) = turn {
            let opened =
                step.facts[..index].iter().any(|f| matches!(f, Fact::TurnOpened { no: o, .. } if *o == no));
            assert!(!step.facts[..index].iter().any(|f| matches!(f, Fact::QueuedTurnOpened { .. })));
            assert!(
                opened
                    || self.worker.turn().is_some_and(|open| open.no == no)
                    || matches!(&self.worker.state, LifecycleState::Local(local) if local.no == no),
                "{event_type} of no open turn"
            );
            let closes = |fact: &Fact| matches!(fact, Fact::TurnClosed { no: closed, .. } if *closed == no);
            let closed = step.facts[..index].iter().any(closes);
            assert!(!closed, "{event_type} after the end of its turn");
        }
        match event_type {
            EventType::ApprovalDecided | EventType::ElicitationAnswered => {
                assert!(decides(input), "the input is no decision");
            }
            EventType::WorkerStopped => {
                self.stopped_events += 1;
                assert!(self.stopped_events == 1 && is_stopped(&step.worker));
            }
            event_type if event_type.ends_turn() => {
                let closes = |fact: &Fact| matches!(fact, Fact::TurnClosed { no, .. } if Some(*no) == turn);
                assert!(step.facts[index..].iter().any(closes), "{event_type} without an end");
            }
            _ => {}
        }
    }

    fn check_action(&self, input: &WorkerInput, step: &Transition, action: &WorkerAction) {
        match action {
            WorkerAction::StartRuntime => {
                assert!(
                    self.worker.link == RuntimeStatus::None
                        || matches!(input, WorkerInput::RuntimeGone { .. } | WorkerInput::SpawnFailed { .. }),
                    "one lives"
                );
                assert_eq!(step.worker.link, RuntimeStatus::Starting);
                let begun = step.worker.restart == Restart::Begun;
                let woken =
                    matches!(input, WorkerInput::Wake) && self.worker.hibernation == Hibernation::Begun;
                assert!(begun || woken || matches!(step.worker.state, LifecycleState::Turn(_)));
            }
            WorkerAction::Prompt { turn } => {
                let LifecycleState::Turn(open) = &step.worker.state else {
                    panic!("a prompt without a turn")
                };
                assert_eq!((open.no, open.dispatching, &open.cancel), (*turn, false, &None));
                assert!(!self.dispatching.contains(turn), "a prompt after it may have been written");
                assert_eq!(step.worker.link, RuntimeStatus::Ready);
            }
            WorkerAction::Cancel { turn, reason } => {
                let open = step.worker.turn().unwrap();
                assert_eq!((open.no, &open.cancel.as_ref().unwrap().reason), (*turn, reason));
            }
            WorkerAction::Answer { request_id, option_id } => {
                let asked = step.worker.approvals.get(request_id).map(|asked| &asked.approval);
                let Some(Approval::Decided { option_id: decided }) = asked else {
                    panic!("an answer without a decision");
                };
                assert_eq!(decided, option_id);
            }
            WorkerAction::Terminate => {
                let restarts = step.worker.restart == Restart::Wanted;
                assert!(restarts || matches!(step.worker.state, LifecycleState::Stopping(_)));
            }
            WorkerAction::Hibernate { last_turn } => {
                assert!(matches!(input, WorkerInput::Hibernate { .. } | WorkerInput::Attached { .. }));
                assert_eq!((&step.worker.state, *last_turn), (&LifecycleState::Idle, step.worker.last_turn));
                assert!(step.worker.approvals.is_empty());
                assert!(matches!(step.worker.hibernation, Hibernation::Wanted { .. }));
            }
        }
    }
}
