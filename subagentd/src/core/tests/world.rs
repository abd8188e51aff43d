//! A model of the environment of the rules: a runtime that keeps its own order and can die at any
//! point, its journal and socket, and a daemon that can restart between any two steps.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use subagent_protocol::ids::{RequestId, TurnId};
use subagent_protocol::record::{ApprovalClosedReason, SessionOrigin, TurnEnd};
use subagent_protocol::state::{Carrier, Dispatched, ElicitationAction, QuestionKind, TurnStatus};
use subagent_protocol::{Code, Error};

use super::checker::Checker;
use super::inbox::in_the_inbox;
use super::ops::Op;
use super::{
    LOCAL, answer, decide, enqueue, failure, is_stopped, limited, queued_id, request, send, simulate,
    simulate_asking,
};
use crate::core::task::TaskEnding;
use crate::core::worker::{Action, Input, Link, Restart, State};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Starting,
    Ready,
    Ending,
}

/// A runtime that is alive.
struct Runtime {
    phase: Phase,
    last_turn: u64,
    /// The open turn, and whether a cancel of it was taken.
    turn: Option<(u64, bool)>,
    /// Open questions, with their turns.
    approvals: BTreeMap<RequestId, Option<u64>>,
    commands: VecDeque<Action>,
    replies: VecDeque<Input>,
}

pub(super) struct World {
    pub(super) checker: Checker,
    runtime: Option<Runtime>,
    journal: VecDeque<Input>,
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

    pub(super) fn apply(&mut self, op: &Op) {
        match op {
            Op::Send => self.person(send(self.checker.worker.last_turn + 1)),
            Op::Simulate { asks } => {
                let no = self.checker.worker.last_turn + 1;
                self.person(if *asks { simulate_asking(no) } else { simulate(no) });
            }
            Op::Enqueue { urgency } => {
                self.queued += 1;
                self.person(enqueue(self.queued, *urgency));
            }
            Op::DropQueued { which } => {
                let turn_id = self.waiting(*which);
                self.person(Input::DropQueued { turn_id });
            }
            Op::MoveQueued { which, to } => {
                let turn_id = self.waiting(*which);
                self.person(Input::MoveQueued { turn_id, to: *to });
            }
            Op::ResumeQueue => self.person(Input::ResumeQueue),
            Op::Cancel => self.person(Input::Cancel { reason: "canceled by manager".to_owned() }),
            Op::EndTask => {
                let (ending, reason) = (TaskEnding::TimedOut, "it ran for too long".to_owned());
                self.person(Input::EndTask { ending, reason });
            }
            Op::Stop => self.person(Input::Stop),
            Op::Restart { force } => self.person(Input::Restart { force: *force }),
            Op::Hibernate => self.person(Input::Hibernate { idle_seconds: 60 }),
            Op::Wake => self.person(Input::Wake),
            Op::Decide { which, select } => {
                let local = matches!(self.checker.worker.state, State::Local(_)).then(|| request(LOCAL));
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
            Op::Inbox { which, how } => {
                let local = matches!(self.checker.worker.state, State::Local(_)).then(|| request(LOCAL));
                let open = self.checker.worker.approvals.keys().cloned().chain(local);
                let open: Vec<RequestId> = open.collect();
                let found = open.get(*which).cloned().unwrap_or_else(|| request(250));
                self.person(in_the_inbox(*how, found, open));
            }
            Op::Spawn { works } => self.spawn(*works),
            Op::ReadReply => self.read_reply(),
            Op::Read { records } => self.read(*records),
            Op::SeeDeath => self.see_death(),
            Op::GuardLockIsFree => {
                if self.runtime.is_none() && !self.may_live && !self.start_wanted && self.stopping() {
                    self.sure(Input::NothingLeft);
                }
            }
            Op::Reconnect => self.connect(),
            Op::DaemonDies { after_commit: true, unheard } => self.die_after_commit = Some(*unheard),
            Op::DaemonDies { after_commit: false, unheard } => self.restart(*unheard),
            Op::Kill => self.runtime = None,
            Op::Reboot { lost } => {
                // A clean end is durable, because its records were synced with those of the guard.
                if self.runtime.take().is_some() {
                    self.journal.truncate(self.journal.len().saturating_sub(*lost));
                }
                self.rebooted |= self.may_live;
                self.restart(false);
            }
            Op::ParkingOver => {
                if !self.start_wanted && self.checker.worker.unparks_at().is_some() {
                    self.sure(Input::ParkingOver);
                }
            }
            Op::SessionOpens | Op::StartFails | Op::TakeCommand | Op::Ask | Op::Withdraw { .. } => {
                self.runtime_op(op)
            }
            Op::TurnEnds { .. } | Op::Limited { .. } | Op::AgentExits | Op::EndsItself | Op::Clean => {
                self.runtime_op(op)
            }
        }
        self.check_truth();
    }

    /// Ends everything: the runtime dies, and no other one can be started. Then the worker is
    /// stopped.
    pub(super) fn finish(&mut self) {
        self.die_after_commit = None;
        self.apply(&Op::Kill);
        self.apply(&Op::SeeDeath);
        self.apply(&Op::Spawn { works: false });
        self.apply(&Op::ParkingOver);
        self.apply(&Op::Spawn { works: false });
        if matches!(self.checker.worker.state, State::Local(_)) {
            // Only a client can end a simulated turn.
            self.apply(&Op::Cancel);
            // The message queued behind it gets no runtime.
            self.apply(&Op::Spawn { works: false });
        }
        assert_eq!(self.checker.worker.open_turn(), None, "an accepted turn has no end");
        assert!(self.checker.rows.turns.values().all(|row| row.status != TurnStatus::Accepted));
        assert!(self.checker.worker.approvals.is_empty(), "nobody can answer any more");
        assert_eq!(self.checker.worker.link, Link::None);
        self.apply(&Op::Stop);
        self.apply(&Op::GuardLockIsFree);
        assert!(is_stopped(&self.checker.worker));
        for late in [
            Input::Stop,
            Input::Retire,
            Input::Ending,
            Input::NothingLeft,
            Input::RuntimeGone { clean: false, rebooted: false },
        ] {
            self.sure(late);
        }
        assert_eq!(self.checker.step(&send(99)), Err(Code::WorkerStopped));
    }

    /// Lets everything finish without disturbance: each turn ends, and a stopping worker stops.
    pub(super) fn settle(&mut self) {
        self.die_after_commit = None;
        self.apply(&Op::Reconnect);
        for _ in 0..4 + 2 * self.checker.worker.queue.turns.len() {
            self.apply(&Op::ResumeQueue);
            self.apply(&Op::ParkingOver);
            self.apply(&Op::SeeDeath);
            self.apply(&Op::Spawn { works: true });
            self.apply(&Op::SessionOpens);
            self.apply(&Op::Read { records: usize::MAX });
            while self.runtime.as_ref().is_some_and(|runtime| !runtime.commands.is_empty()) {
                self.apply(&Op::TakeCommand);
            }
            while self.runtime.as_ref().is_some_and(|runtime| !runtime.replies.is_empty()) {
                self.apply(&Op::ReadReply);
            }
            self.apply(&Op::TurnEnds { well: true });
            self.apply(&Op::Clean);
            self.apply(&Op::Read { records: usize::MAX });
            self.apply(&Op::GuardLockIsFree);
        }
        assert_eq!(self.checker.worker.turn(), None, "a turn waits for nothing");
        assert!(!self.stopping(), "a stop waits for nothing");
        if !matches!(self.checker.worker.state, State::Local(_)) {
            assert!(self.checker.worker.queue.turns.is_empty(), "a message waits for nothing");
        }
    }

    /// Returns a queued turn, or an unknown one if the queue is shorter.
    fn waiting(&self, which: usize) -> TurnId {
        self.checker.worker.queue.turns.get(which).cloned().unwrap_or_else(|| queued_id(u16::MAX))
    }

    fn stopping(&self) -> bool {
        matches!(self.checker.worker.state, State::Stopping(_))
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

    fn person(&mut self, input: Input) {
        if self.start_wanted {
            // The daemon performs the actions of the rules before it takes the next order.
            return;
        }
        if let Ok(actions) = self.checker.step(&input) {
            self.committed(actions);
        }
    }

    /// Applies an input that the rules must accept.
    fn sure(&mut self, input: Input) {
        match self.checker.step(&input) {
            Ok(actions) => self.committed(actions),
            Err(code) => panic!("{code} for {input:?} in {:?}", self.checker.worker),
        }
    }

    fn committed(&mut self, actions: Vec<Action>) {
        if let Some(unheard) = self.die_after_commit.take() {
            return self.restart(unheard);
        }
        for action in actions {
            match action {
                Action::StartRuntime => self.start_wanted = true,
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
            return self.sure(Input::SpawnFailed { error: failure() });
        }
        let worker = &self.checker.worker;
        self.runtime = Some(Runtime {
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
                Input::TurnEnd { turn, .. } if self.ended_well.contains(turn) => Some(*turn),
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
        self.sure(Input::RuntimeGone { clean: self.clean, rebooted: self.rebooted });
    }

    /// Connects. The runtime forgets unread commands of older connections.
    fn connect(&mut self) {
        let Some(runtime) = &mut self.runtime else { return };
        self.heard = true;
        runtime.commands.clear();
        runtime.replies.clear();
        let last_turn = runtime.last_turn;
        let link = match runtime.phase {
            Phase::Starting => Link::Starting,
            Phase::Ready => Link::Ready,
            Phase::Ending => Link::Ending,
        };
        self.read(usize::MAX);
        self.sure(Input::Attached { link, last_turn });
    }

    /// Starts another daemon. If it is not heard, the runtime keeps the commands of the earlier
    /// daemon.
    fn restart(&mut self, unheard: bool) {
        self.checker.reload();
        (self.start_wanted, self.die_after_commit, self.heard) = (false, None, false);
        if self.runtime.is_some() {
            self.checker.worker.link = Link::Adopted;
            if !unheard {
                self.connect();
            }
        } else if self.may_live {
            self.see_death();
        } else {
            match &self.checker.worker.state {
                // The turn waits for the end of a rate limit.
                State::Turn(_) if self.checker.worker.holds_turn() => {}
                State::Turn(turn) => {
                    assert!(!turn.dispatching && turn.cancel.is_none());
                    self.checker.worker.link = Link::Starting;
                    self.start_wanted = true;
                }
                State::Starting => self.start_wanted = true,
                _ if self.checker.worker.restart == Restart::Begun => {
                    self.checker.worker.link = Link::Starting;
                    self.start_wanted = true;
                }
                _ => {}
            }
        }
    }

    fn runtime_op(&mut self, op: &Op) {
        let Some(runtime) = &mut self.runtime else { return };
        let journal = &mut self.journal;
        match op {
            Op::SessionOpens if runtime.phase == Phase::Starting => {
                runtime.phase = Phase::Ready;
                journal.push_back(Input::Session {
                    origin: SessionOrigin::New,
                    context_lost: false,
                    context_lost_reason: None,
                    took_ms: None,
                });
            }
            Op::StartFails if runtime.phase == Phase::Starting => {
                runtime.phase = Phase::Ending;
                journal.push_back(Input::StartFailed { error: failure() });
            }
            Op::TakeCommand => self.take_command(),
            Op::Ask if runtime.phase != Phase::Starting => {
                self.asked += 1;
                let (request_id, turn) = (request(self.asked), runtime.turn);
                // Every other question is an elicitation.
                journal.push_back(match self.asked % 2 {
                    0 => Input::ElicitationRequested { request_id: request_id.clone() },
                    _ => Input::ApprovalRequested { request_id: request_id.clone() },
                });
                let over = match (runtime.phase, turn) {
                    (Phase::Ending, _) => Some(ApprovalClosedReason::Stopped),
                    (_, Some((_, true))) => Some(ApprovalClosedReason::TurnCanceled),
                    _ => None,
                };
                match over {
                    Some(reason) => journal.push_back(Input::ApprovalClosed { request_id, reason }),
                    None => {
                        runtime.approvals.insert(request_id, turn.map(|(no, _)| no));
                    }
                }
            }
            Op::Withdraw { which } => {
                if let Some(request_id) = runtime.approvals.keys().nth(*which).cloned() {
                    runtime.approvals.remove(&request_id);
                    let reason = ApprovalClosedReason::Withdrawn;
                    journal.push_back(Input::ApprovalClosed { request_id, reason });
                }
            }
            Op::TurnEnds { well } => {
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
            Op::Limited { known } => {
                let after = known.then_some(60_000);
                let failed = match (runtime.phase, runtime.turn.take()) {
                    (Phase::Starting, _) => {
                        runtime.phase = Phase::Ending;
                        Input::StartFailed { error: failure() }
                    }
                    (Phase::Ready, Some((turn, _))) => {
                        let of = |of| of == Some(turn);
                        runtime.close_approvals(ApprovalClosedReason::TurnEnded, of, journal);
                        Input::TurnEnd { turn, end: TurnEnd::Failed { error: failure() } }
                    }
                    (_, turn) => {
                        runtime.turn = turn;
                        return;
                    }
                };
                journal.push_back(limited(failed, after));
            }
            Op::AgentExits => {
                journal.push_back(Input::Ending);
                runtime.close_approvals(ApprovalClosedReason::AgentGone, |_| true, journal);
                runtime.end_turn(TurnEnd::Failed { error: failure() }, journal);
                if runtime.phase == Phase::Starting {
                    journal.push_back(Input::StartFailed { error: failure() });
                }
                runtime.phase = Phase::Ending;
            }
            Op::EndsItself => runtime.terminate(journal),
            Op::Clean if runtime.phase == Phase::Ending => {
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
            Action::Prompt { turn } => {
                let error = match runtime.phase {
                    Phase::Starting | Phase::Ending => None,
                    Phase::Ready if runtime.turn.is_none() && turn > runtime.last_turn => {
                        assert!(self.taken.insert(turn), "the prompt of turn {turn} was written twice");
                        (runtime.last_turn, runtime.turn) = (turn, Some((turn, false)));
                        return journal.push_back(Input::Dispatching { turn });
                    }
                    Phase::Ready => Some(Error::new(Code::BackendRuntimeError, "wrong turn")),
                };
                runtime.replies.push_back(Input::PromptRefused { turn, error });
            }
            Action::Cancel { turn, reason } => {
                if runtime.phase == Phase::Ready && runtime.turn == Some((turn, false)) {
                    runtime.turn = Some((turn, true));
                    self.cancel_taken.insert(turn);
                    journal.push_back(Input::CancelRequested { turn, reason });
                    runtime.close_approvals(ApprovalClosedReason::TurnCanceled, |_| true, journal);
                }
            }
            Action::Answer { request_id, .. } => {
                if runtime.phase == Phase::Ready && runtime.approvals.remove(&request_id).is_some() {
                    journal.push_back(Input::AnswerWritten { request_id });
                } else {
                    runtime.replies.push_back(Input::AnswerRefused { request_id });
                }
            }
            Action::Terminate => {
                if runtime.phase != Phase::Ending
                    && let Some((no, _)) = runtime.turn
                {
                    self.cancel_taken.insert(no);
                }
                runtime.terminate(journal);
            }
            Action::Hibernate { last_turn } => {
                let busy = runtime.turn.is_some() || !runtime.approvals.is_empty();
                match runtime.phase {
                    Phase::Ready if !busy && runtime.last_turn <= last_turn => runtime.terminate(journal),
                    Phase::Ready => runtime.replies.push_back(Input::HibernateRefused),
                    Phase::Starting => panic!("an agent that is starting is told to hibernate"),
                    Phase::Ending => {}
                }
            }
            Action::StartRuntime => unreachable!("that is no command"),
        }
    }
}

impl Runtime {
    fn terminate(&mut self, journal: &mut VecDeque<Input>) {
        if self.phase != Phase::Ending {
            self.phase = Phase::Ending;
            journal.push_back(Input::Ending);
            self.close_approvals(ApprovalClosedReason::Stopped, |_| true, journal);
        }
    }

    fn end_turn(&mut self, end: TurnEnd, journal: &mut VecDeque<Input>) {
        let Some((turn, _)) = self.turn.take() else { return };
        self.close_approvals(ApprovalClosedReason::TurnEnded, |of| of == Some(turn), journal);
        journal.push_back(Input::TurnEnd { turn, end });
    }

    fn close_approvals(
        &mut self,
        reason: ApprovalClosedReason,
        which: impl Fn(Option<u64>) -> bool,
        journal: &mut VecDeque<Input>,
    ) {
        self.approvals.retain(|request_id, turn| {
            if which(*turn) {
                journal.push_back(Input::ApprovalClosed { request_id: request_id.clone(), reason });
            }
            !which(*turn)
        });
    }
}
