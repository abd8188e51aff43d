//! A model of the environment of the rules: a runtime that keeps its own order and can die at any
//! point, its journal and socket, and a daemon that can restart between any two steps.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use subagent_protocol::ids::{RequestId, TurnId};
use subagent_protocol::record::{ApprovalClosedReason, SessionOrigin, TurnEnd};
use subagent_protocol::state::{Carrier, Dispatched, ElicitationAction, QuestionKind, TurnStatus};
use subagent_protocol::{Code, Error};

use super::inbox::in_the_inbox;
use super::ops::ModelOperation;
use super::{answer, decide, enqueue, failure, limited, queued_id, send, simulate, simulate_asking};
use crate::checker::{Checker, LOCAL, request};
use crate::model::{LifecycleState, Restart, RuntimeStatus, TaskEnding, WorkerAction, WorkerInput};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Starting,
    Ready,
    Ending,
}

/// A runtime that is alive.
struct LivingRuntime {
    phase: Phase,
    last_turn: u64,
    /// The open turn, and whether a cancel of it was taken.
    turn: Option<(u64, bool)>,
    /// Open questions, with their turns.
    approvals: BTreeMap<RequestId, Option<u64>>,
    commands: VecDeque<WorkerAction>,
    replies: VecDeque<WorkerInput>,
}

pub(super) struct World {
    pub(super) checker: Checker,
    runtime: Option<LivingRuntime>,
    journal: VecDeque<WorkerInput>,
    /// Whether the last runtime's last record is the guard's proof.
    clean: bool,
    /// Whether a runtime may be alive according to the store, and whether the machine rebooted
    /// since.
    may_live: bool,
    rebooted: bool,
    start_wanted: bool,
    /// Whether the next daemon gets no answer.
    die_after_commit: Option<bool>,
    /// Whether the runtime has answered the daemon's hello and takes commands.
    heard: bool,
    asked: u8,
    /// Number of messages that may have been queued.
    queued: u16,
    /// Turns whose prompt a runtime took, and those whose cancel it took before the end.
    taken: BTreeSet<u64>,
    cancel_taken: BTreeSet<u64>,
    /// Turns that completed before the runtime got a cancel or terminate command.
    ended_well: BTreeSet<u64>,
}

impl World {
    pub(super) fn new() -> Self {
        Self {
            checker: Checker::new(),
            runtime: None,
            journal: VecDeque::new(),
            clean: false,
            may_live: false,
            rebooted: false,
            start_wanted: true,
            die_after_commit: None,
            heard: false,
            asked: 0,
            queued: 0,
            taken: BTreeSet::new(),
            cancel_taken: BTreeSet::new(),
            ended_well: BTreeSet::new(),
        }
    }

    pub(super) fn apply(&mut self, op: &ModelOperation) {
        match op {
            ModelOperation::Send => self.person(send(self.checker.worker.last_turn + 1)),
            ModelOperation::Simulate { asks } => {
                let no = self.checker.worker.last_turn + 1;
                self.person(if *asks { simulate_asking(no) } else { simulate(no) });
            }
            ModelOperation::Enqueue { urgency } => {
                self.queued += 1;
                self.person(enqueue(self.queued, *urgency));
            }
            ModelOperation::DropQueued { which } => {
                let turn_id = self.waiting(*which);
                self.person(WorkerInput::DropQueued { turn_id });
            }
            ModelOperation::MoveQueued { which, to } => {
                let turn_id = self.waiting(*which);
                self.person(WorkerInput::MoveQueued { turn_id, to: *to });
            }
            ModelOperation::ResumeQueue => self.person(WorkerInput::ResumeQueue),
            ModelOperation::Cancel => {
                self.person(WorkerInput::Cancel { turn: None, reason: "canceled by manager".to_owned() })
            }
            ModelOperation::EndTask => {
                let (ending, reason) = (TaskEnding::TimedOut, "it ran for too long".to_owned());
                self.person(WorkerInput::EndTask { ending, reason });
            }
            ModelOperation::Stop => self.person(WorkerInput::Stop),
            ModelOperation::Restart { force } => {
                self.person(WorkerInput::Restart { force: *force, beside: false })
            }
            ModelOperation::Hibernate => self.person(WorkerInput::Hibernate { idle_seconds: 60 }),
            ModelOperation::Wake => self.person(WorkerInput::Wake),
            ModelOperation::Decide { which, select } => {
                let local =
                    matches!(self.checker.worker.state, LifecycleState::Local(_)).then(|| request(LOCAL));
                let open = self.checker.worker.approvals.keys().cloned().chain(local);
                let found = open.into_iter().nth(*which);
                let found = found.unwrap_or_else(|| request(250));
                let kind = self.checker.worker.approvals.get(&found).map(|asked| asked.kind);
                self.person(match (kind, *select) {
                    (Some(QuestionKind::Elicitation), true) => answer(found, ElicitationAction::Accept),
                    (Some(QuestionKind::Elicitation), false) => answer(found, ElicitationAction::Cancel),
                    (_, select) => decide(found, select.then_some("allow")),
                });
            }
            ModelOperation::Inbox { which, how } => {
                let local =
                    matches!(self.checker.worker.state, LifecycleState::Local(_)).then(|| request(LOCAL));
                let open = self.checker.worker.approvals.keys().cloned().chain(local);
                let open: Vec<RequestId> = open.collect();
                let found = open.get(*which).cloned().unwrap_or_else(|| request(250));
                self.person(in_the_inbox(*how, found, open));
            }
            ModelOperation::Spawn { works } => self.spawn(*works),
            ModelOperation::ReadReply => self.read_reply(),
            ModelOperation::Read { records } => self.read(*records),
            ModelOperation::SeeDeath => self.see_death(),
            ModelOperation::GuardLockIsFree => {
                if self.runtime.is_none() && !self.may_live && !self.start_wanted && self.stopping() {
                    self.sure(WorkerInput::NothingLeft);
                }
            }
            ModelOperation::Reconnect => self.connect(),
            ModelOperation::DaemonDies { after_commit: true, unheard } => {
                self.die_after_commit = Some(*unheard)
            }
            ModelOperation::DaemonDies { after_commit: false, unheard } => self.restart(*unheard),
            ModelOperation::Kill => self.runtime = None,
            ModelOperation::Reboot { lost } => {
                // A clean end is durable, because its records were synced with those of the guard.
                if self.runtime.take().is_some() {
                    self.journal.truncate(self.journal.len().saturating_sub(*lost));
                }
                self.rebooted |= self.may_live;
                self.restart(false);
            }
            ModelOperation::ParkingOver => {
                if !self.start_wanted && self.checker.worker.unparks_at().is_some() {
                    self.sure(WorkerInput::ParkingOver);
                }
            }
            ModelOperation::SessionOpens
            | ModelOperation::StartFails
            | ModelOperation::TakeCommand
            | ModelOperation::Ask
            | ModelOperation::Withdraw { .. } => self.runtime_op(op),
            ModelOperation::TurnEnds { .. }
            | ModelOperation::Limited { .. }
            | ModelOperation::AgentExits
            | ModelOperation::EndsItself
            | ModelOperation::Clean => self.runtime_op(op),
        }
        self.check_truth();
    }

    /// Ends everything: the runtime dies, and no other one can be started. Then the worker is
    /// stopped.
    pub(super) fn finish(&mut self) {
        self.die_after_commit = None;
        self.apply(&ModelOperation::Kill);
        self.apply(&ModelOperation::SeeDeath);
        self.apply(&ModelOperation::Spawn { works: false });
        self.apply(&ModelOperation::ParkingOver);
        self.apply(&ModelOperation::Spawn { works: false });
        if matches!(self.checker.worker.state, LifecycleState::Local(_)) {
            // Only a client can end a simulated turn.
            self.apply(&ModelOperation::Cancel);
            // The message queued behind it gets no runtime.
            self.apply(&ModelOperation::Spawn { works: false });
        }
        assert_eq!(self.checker.worker.open_turn(), None, "an accepted turn has no end");
        assert!(self.checker.rows.turns.values().all(|row| row.status != TurnStatus::Accepted));
        assert!(self.checker.worker.approvals.is_empty(), "no approval stays open");
        assert_eq!(self.checker.worker.link, RuntimeStatus::None);
        self.apply(&ModelOperation::Stop);
        self.apply(&ModelOperation::GuardLockIsFree);
        assert!(crate::checker::is_stopped(&self.checker.worker));
        for late in [
            WorkerInput::Stop,
            WorkerInput::Retire,
            WorkerInput::Ending,
            WorkerInput::NothingLeft,
            WorkerInput::RuntimeGone { clean: false, rebooted: false, place: None },
        ] {
            self.sure(late);
        }
        assert_eq!(self.checker.step(&send(99)), Err(Code::WorkerStopped));
    }

    /// Lets everything finish without disturbance: each turn ends, and a stopping worker stops.
    pub(super) fn settle(&mut self) {
        self.die_after_commit = None;
        self.apply(&ModelOperation::Reconnect);
        for _ in 0..4 + 2 * self.checker.worker.queue.turns.len() {
            self.apply(&ModelOperation::ResumeQueue);
            self.apply(&ModelOperation::ParkingOver);
            self.apply(&ModelOperation::SeeDeath);
            self.apply(&ModelOperation::Spawn { works: true });
            self.apply(&ModelOperation::SessionOpens);
            self.apply(&ModelOperation::Read { records: usize::MAX });
            while self.runtime.as_ref().is_some_and(|runtime| !runtime.commands.is_empty()) {
                self.apply(&ModelOperation::TakeCommand);
            }
            while self.runtime.as_ref().is_some_and(|runtime| !runtime.replies.is_empty()) {
                self.apply(&ModelOperation::ReadReply);
            }
            self.apply(&ModelOperation::TurnEnds { well: true });
            self.apply(&ModelOperation::Clean);
            self.apply(&ModelOperation::Read { records: usize::MAX });
            self.apply(&ModelOperation::GuardLockIsFree);
        }
        assert_eq!(self.checker.worker.turn(), None, "a turn waits for nothing");
        assert!(!self.stopping(), "a stop waits for nothing");
        if !matches!(self.checker.worker.state, LifecycleState::Local(_)) {
            assert!(self.checker.worker.queue.turns.is_empty(), "a message waits for nothing");
        }
    }

    /// Returns a queued turn, or an unknown one if the queue is shorter.
    fn waiting(&self, which: usize) -> TurnId {
        self.checker.worker.queue.turns.get(which).cloned().unwrap_or_else(|| queued_id(u16::MAX))
    }

    fn stopping(&self) -> bool {
        matches!(self.checker.worker.state, LifecycleState::Stopping(_))
    }

    /// Checks that the stored turns agree with what runtimes did.
    fn check_truth(&self) {
        for (no, row) in &self.checker.rows.turns {
            if row.status == TurnStatus::Accepted {
                continue;
            }
            if row.dispatched == Dispatched::No {
                assert!(!self.taken.contains(no), "turn {no} was sent, and the opposite is told");
            }
            if row.carrier == Carrier::Local {
                assert!(!self.taken.contains(no), "turn {no} is simulated, and was sent");
            } else if row.status == TurnStatus::Completed {
                assert!(
                    self.taken.contains(no) && !self.cancel_taken.contains(no),
                    "turn {no} was not completed"
                );
            }
        }
    }

    fn person(&mut self, input: WorkerInput) {
        if self.start_wanted {
            // The daemon performs the actions of the rules before it takes the next order.
            return;
        }
        if let Ok(actions) = self.checker.step(&input) {
            self.committed(actions);
        }
    }

    /// Applies an input that the rules must accept.
    fn sure(&mut self, input: WorkerInput) {
        match self.checker.step(&input) {
            Ok(actions) => self.committed(actions),
            Err(code) => panic!("{code} for {input:?} in {:?}", self.checker.worker),
        }
    }

    fn committed(&mut self, actions: Vec<WorkerAction>) {
        if let Some(unheard) = self.die_after_commit.take() {
            return self.restart(unheard);
        }
        for action in actions {
            match action {
                WorkerAction::StartRuntime => self.start_wanted = true,
                command => {
                    if let (Some(runtime), true) = (&mut self.runtime, self.heard) {
                        runtime.commands.push_back(command);
                    }
                }
            }
        }
    }

    fn spawn(&mut self, works: bool) {
        if !std::mem::take(&mut self.start_wanted) || self.runtime.is_some() {
            return;
        }
        assert!(!self.may_live, "two runtimes");
        if !works {
            return self.sure(WorkerInput::SpawnFailed { error: failure() });
        }
        let worker = &self.checker.worker;
        self.runtime = Some(LivingRuntime {
            phase: Phase::Starting,
            last_turn: worker.turn().map_or(worker.last_turn, |turn| turn.no - 1),
            turn: None,
            approvals: BTreeMap::new(),
            commands: VecDeque::new(),
            replies: VecDeque::new(),
        });
        (self.may_live, self.clean, self.rebooted) = (true, false, false);
        self.connect();
    }

    fn read(&mut self, records: usize) {
        for _ in 0..records {
            let Some(record) = self.journal.pop_front() else { return };
            let ended = match &record {
                WorkerInput::TurnEnd { turn, .. } if self.ended_well.contains(turn) => Some(*turn),
                _ => None,
            };
            self.sure(record);
            if let Some(no) = ended {
                assert_eq!(
                    self.checker.rows.turns[&no].status,
                    TurnStatus::Completed,
                    "a cancel that came too late"
                );
            }
        }
    }

    fn read_reply(&mut self) {
        let Some(reply) =
            self.runtime.as_mut().filter(|_| self.heard).and_then(|runtime| runtime.replies.pop_front())
        else {
            return;
        };
        // Records written before the refusal come first.
        self.read(usize::MAX);
        self.sure(reply);
    }

    fn see_death(&mut self) {
        if self.runtime.is_some() || !self.may_live {
            return;
        }
        self.read(usize::MAX);
        if !self.may_live {
            // The daemon died while it read, and its successor has handled the death.
            return;
        }
        self.may_live = false;
        self.sure(WorkerInput::RuntimeGone { clean: self.clean, rebooted: self.rebooted, place: None });
    }

    /// Connects. The runtime forgets unread commands of older connections.
    fn connect(&mut self) {
        let Some(runtime) = &mut self.runtime else { return };
        self.heard = true;
        runtime.commands.clear();
        runtime.replies.clear();
        let last_turn = runtime.last_turn;
        let link = match runtime.phase {
            Phase::Starting => RuntimeStatus::Starting,
            Phase::Ready => RuntimeStatus::Ready,
            Phase::Ending => RuntimeStatus::Ending,
        };
        self.read(usize::MAX);
        self.sure(WorkerInput::Attached { link, last_turn });
    }

    /// Starts another daemon. If it is not heard, the runtime keeps the commands of the earlier
    /// daemon.
    fn restart(&mut self, unheard: bool) {
        self.checker.reload();
        (self.start_wanted, self.die_after_commit, self.heard) = (false, None, false);
        if self.runtime.is_some() {
            self.checker.worker.link = RuntimeStatus::Adopted;
            if !unheard {
                self.connect();
            }
        } else if self.may_live {
            self.see_death();
        } else {
            match &self.checker.worker.state {
                // The turn waits for the end of a rate limit.
                LifecycleState::Turn(_) if self.checker.worker.holds_turn() => {}
                LifecycleState::Turn(turn) => {
                    assert!(!turn.dispatching && turn.cancel.is_none());
                    self.checker.worker.link = RuntimeStatus::Starting;
                    self.start_wanted = true;
                }
                LifecycleState::Starting => self.start_wanted = true,
                _ if self.checker.worker.restart == Restart::Begun => {
                    self.checker.worker.link = RuntimeStatus::Starting;
                    self.start_wanted = true;
                }
                _ => {}
            }
        }
    }

    fn runtime_op(&mut self, op: &ModelOperation) {
        let Some(runtime) = &mut self.runtime else { return };
        let journal = &mut self.journal;
        match op {
            ModelOperation::SessionOpens if runtime.phase == Phase::Starting => {
                runtime.phase = Phase::Ready;
                journal.push_back(WorkerInput::Session {
                    origin: SessionOrigin::New,
                    context_lost: false,
                    context_lost_reason: None,
                    took_ms: None,
                });
            }
            ModelOperation::StartFails if runtime.phase == Phase::Starting => {
                runtime.phase = Phase::Ending;
                journal.push_back(WorkerInput::StartFailed { error: failure() });
            }
            ModelOperation::TakeCommand => self.take_command(),
            ModelOperation::Ask if runtime.phase != Phase::Starting => {
                self.asked += 1;
                let (request_id, turn) = (request(self.asked), runtime.turn);
                // Every other question is an elicitation.
                journal.push_back(match self.asked % 2 {
                    0 => WorkerInput::ElicitationRequested { request_id: request_id.clone() },
                    _ => WorkerInput::ApprovalRequested { request_id: request_id.clone() },
                });
                let over = match (runtime.phase, turn) {
                    (Phase::Ending, _) => Some(ApprovalClosedReason::Stopped),
                    (_, Some((_, true))) => Some(ApprovalClosedReason::TurnCanceled),
                    _ => None,
                };
                match over {
                    Some(reason) => journal.push_back(WorkerInput::ApprovalClosed { request_id, reason }),
                    None => {
                        runtime.approvals.insert(request_id, turn.map(|(no, _)| no));
                    }
                }
            }
            ModelOperation::Withdraw { which } => {
                if let Some(request_id) = runtime.approvals.keys().nth(*which).cloned() {
                    runtime.approvals.remove(&request_id);
                    let reason = ApprovalClosedReason::Withdrawn;
                    journal.push_back(WorkerInput::ApprovalClosed { request_id, reason });
                }
            }
            ModelOperation::TurnEnds { well } => {
                if let (Phase::Ready, Some((no, false)), true) = (runtime.phase, runtime.turn, *well) {
                    self.ended_well.insert(no);
                }
                let end = match well {
                    true => TurnEnd::Answered {
                        stop_reason: Some("end_turn".to_owned()),
                        usage: None,
                        meta: None,
                    },
                    false => TurnEnd::Failed { error: failure() },
                };
                runtime.end_turn(end, journal);
            }
            ModelOperation::Limited { known } => {
                let after = known.then_some(60_000);
                let failed = match (runtime.phase, runtime.turn.take()) {
                    (Phase::Starting, _) => {
                        runtime.phase = Phase::Ending;
                        WorkerInput::StartFailed { error: failure() }
                    }
                    (Phase::Ready, Some((turn, _))) => {
                        let of = |of| of == Some(turn);
                        runtime.close_approvals(ApprovalClosedReason::TurnEnded, of, journal);
                        WorkerInput::TurnEnd { turn, end: TurnEnd::Failed { error: failure() } }
                    }
                    (_, turn) => {
                        runtime.turn = turn;
                        return;
                    }
                };
                journal.push_back(limited(failed, after));
            }
            ModelOperation::AgentExits => {
                journal.push_back(WorkerInput::Ending);
                runtime.close_approvals(ApprovalClosedReason::AgentGone, |_| true, journal);
                runtime.end_turn(TurnEnd::Failed { error: failure() }, journal);
                if runtime.phase == Phase::Starting {
                    journal.push_back(WorkerInput::StartFailed { error: failure() });
                }
                runtime.phase = Phase::Ending;
            }
            ModelOperation::EndsItself => runtime.terminate(journal),
            ModelOperation::Clean if runtime.phase == Phase::Ending => {
                runtime.close_approvals(ApprovalClosedReason::AgentGone, |_| true, journal);
                runtime.end_turn(TurnEnd::Failed { error: failure() }, journal);
                (self.runtime, self.clean) = (None, true);
            }
            _ => {}
        }
    }

    fn take_command(&mut self) {
        let Some(runtime) = &mut self.runtime else { return };
        let Some(command) = runtime.commands.pop_front() else { return };
        let journal = &mut self.journal;
        match command {
            WorkerAction::Prompt { turn } => {
                let error = match runtime.phase {
                    Phase::Starting | Phase::Ending => None,
                    Phase::Ready if runtime.turn.is_none() && turn > runtime.last_turn => {
                        assert!(self.taken.insert(turn), "the prompt of turn {turn} was written twice");
                        (runtime.last_turn, runtime.turn) = (turn, Some((turn, false)));
                        return journal.push_back(WorkerInput::Dispatching { turn });
                    }
                    Phase::Ready => Some(Error::new(Code::BackendRuntimeError, "wrong turn")),
                };
                runtime.replies.push_back(WorkerInput::PromptRefused { turn, error });
            }
            WorkerAction::Cancel { turn, reason } => {
                if runtime.phase == Phase::Ready && runtime.turn == Some((turn, false)) {
                    runtime.turn = Some((turn, true));
                    self.cancel_taken.insert(turn);
                    journal.push_back(WorkerInput::CancelRequested { turn, reason });
                    runtime.close_approvals(ApprovalClosedReason::TurnCanceled, |_| true, journal);
                }
            }
            WorkerAction::Answer { request_id, .. } => {
                if runtime.phase == Phase::Ready && runtime.approvals.remove(&request_id).is_some() {
                    journal.push_back(WorkerInput::AnswerWritten { request_id });
                } else {
                    runtime.replies.push_back(WorkerInput::AnswerRefused { request_id });
                }
            }
            WorkerAction::Terminate => {
                if runtime.phase != Phase::Ending
                    && let Some((no, _)) = runtime.turn
                {
                    self.cancel_taken.insert(no);
                }
                runtime.terminate(journal);
            }
            WorkerAction::Hibernate { last_turn } => {
                let busy = runtime.turn.is_some() || !runtime.approvals.is_empty();
                match runtime.phase {
                    Phase::Ready if !busy && runtime.last_turn <= last_turn => runtime.terminate(journal),
                    Phase::Ready => runtime.replies.push_back(WorkerInput::HibernateRefused),
                    Phase::Starting => panic!("an agent that is starting is told to hibernate"),
                    Phase::Ending => {}
                }
            }
            WorkerAction::StartRuntime => unreachable!("that is no command"),
        }
    }
}

impl LivingRuntime {
    fn terminate(&mut self, journal: &mut VecDeque<WorkerInput>) {
        if self.phase != Phase::Ending {
            self.phase = Phase::Ending;
            journal.push_back(WorkerInput::Ending);
            self.close_approvals(ApprovalClosedReason::Stopped, |_| true, journal);
        }
    }

    fn end_turn(&mut self, end: TurnEnd, journal: &mut VecDeque<WorkerInput>) {
        let Some((turn, _)) = self.turn.take() else { return };
        self.close_approvals(ApprovalClosedReason::TurnEnded, |of| of == Some(turn), journal);
        journal.push_back(WorkerInput::TurnEnd { turn, end });
    }

    fn close_approvals(
        &mut self,
        reason: ApprovalClosedReason,
        which: impl Fn(Option<u64>) -> bool,
        journal: &mut VecDeque<WorkerInput>,
    ) {
        self.approvals.retain(|request_id, turn| {
            if which(*turn) {
                journal.push_back(WorkerInput::ApprovalClosed { request_id: request_id.clone(), reason });
            }
            !which(*turn)
        });
    }
}
