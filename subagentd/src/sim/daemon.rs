//! The daemon's side of a worker: the actor's work between rules and system, on simulated state.

use subagent_core::model::{
    Hibernation, LifecycleState, PermissionDecision, RateLimit, Restart, RuntimeStatus, WorkerAction,
    WorkerInput,
};
use subagent_protocol::codec::{self, Decoded};
use subagent_protocol::data::questions::DecidingRule;
use subagent_protocol::frame::{FromRuntime, Refusal, RuntimeCommand, RuntimeHello, RuntimePhase, ToRuntime};
use subagent_protocol::ids::RequestId;
use subagent_protocol::record::{ApprovalRequested, JournalRecord, RecordType, TurnEnd};
use subagent_protocol::secret::Secret;
use subagent_protocol::state::{Desired, ElicitationAction, QuestionKind};
use subagent_protocol::time::Timestamp;
use subagent_protocol::{Code, Error, PROTOCOL};

use super::Break;
use super::agent::ask_of;
use super::site::{DaemonMemory, SimulatedCommand, SimulatedConnection, Site};
use super::world::WorldContext;
use crate::store::Cursor;
use crate::supervisor::{SessionUpdates, input};

/// How far the journal is read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ReadUntil {
    Some,
    Record(u64),
    End,
}

/// Turns every third failure into a rate limit; every other one has a reset time.
fn sometimes_limited(meaning: WorkerInput, record: &JournalRecord<'_>) -> WorkerInput {
    let fails = matches!(
        meaning,
        WorkerInput::TurnEnd { end: TurnEnd::Failed { .. }, .. } | WorkerInput::StartFailed { .. }
    );
    if !fails || !record.n.is_multiple_of(3) {
        return meaning;
    }
    let at = Timestamp(record.at);
    let until = record.n.is_multiple_of(2).then_some(Timestamp(record.at.saturating_add(1_000)));
    WorkerInput::RateLimited { limit: RateLimit { at, until }, input: Box::new(meaning) }
}

impl Site {
    /// Reconstructs the state after a daemon start.
    pub(super) fn recover(&mut self, env: &mut WorldContext) {
        self.memory = DaemonMemory::default();
        self.checker.reload();
        self.checker.worker.queue.gated = true;
        if self.checker.worker.state == LifecycleState::Stopped {
            self.memory.settled = true;
            return;
        }
        if self.stored.incarnation == 0 && self.checker.worker.state == LifecycleState::Starting {
            self.memory.settled = true;
            return self.start_runtime(env);
        }
        // Of a place that does not answer, nothing is known.
        if self.live.is_some() || (self.is_cut() && self.stored.may_live) {
            self.checker.worker.link = RuntimeStatus::Adopted;
            self.memory.runtime = true;
            return self.connect(env);
        }
        self.memory.settled = true;
        if self.stored.may_live && self.begun_for_nothing(env) {
            self.checker.worker.link = RuntimeStatus::Starting;
            self.start_runtime(env);
        } else if self.stored.may_live {
            self.memory.clean_end = self.stored.proof;
            self.gone(env);
        } else {
            let unsent =
                matches!(&self.checker.worker.state, LifecycleState::Turn(turn) if !turn.dispatching);
            if (unsent && !self.checker.worker.holds_turn()) || self.checker.worker.restart == Restart::Begun
            {
                self.checker.worker.link = RuntimeStatus::Starting;
                self.memory.todo.push_back(WorkerAction::StartRuntime);
            }
        }
    }

    fn begun_for_nothing(&self, env: &WorldContext) -> bool {
        let unborn =
            self.stored.cursor.offset == 0 && !self.journal.contains_key(&self.stored.cursor.segment);
        unborn
            && match &self.checker.worker.state {
                LifecycleState::Starting => true,
                LifecycleState::Turn(turn) => {
                    self.stored.boot == self.boot(env) && !turn.dispatching && turn.cancel.is_none()
                }
                LifecycleState::Idle | LifecycleState::Local(_) | LifecycleState::Error => {
                    self.checker.worker.restart == Restart::Begun
                }
                LifecycleState::Stopping(_) | LifecycleState::Stopped => false,
            }
    }

    fn start_runtime(&mut self, env: &mut WorldContext) {
        if self.memory.runtime {
            return;
        }
        if self.left.is_some() && !self.is_cut() {
            if !env.calm && env.random.below(4) == 0 {
                // The wait has timed out.
                return self.spawn_failed(env);
            }
            self.left = None;
        }
        let cursor = self.stored.cursor;
        self.stored.incarnation += 1;
        self.stored.cursor = Cursor { segment: cursor.segment + 1, offset: 0, number: cursor.number };
        (self.stored.may_live, self.stored.boot) = (true, self.boot(env));
        (self.memory.clean_end, self.memory.damaged) = (false, false);
        self.journal.retain(|segment, _| *segment > cursor.segment);
        env.after_commit();
        if env.daemon_dies {
            return;
        }
        // Without an answer of the place, the request for a start is not sent.
        if self.is_cut() || !env.calm && env.random.below(25) == 0 {
            return self.spawn_failed(env);
        }
        self.spawn(env);
        if self.place.is_some() && !env.calm && env.random.below(10) == 0 {
            // The answer about the start is lost.
            self.set_cut(true, env);
        }
        // It may die while starting, which is detected later.
        self.memory.runtime = true;
        self.connect(env);
    }

    fn spawn_failed(&mut self, env: &mut WorldContext) {
        self.stored.may_live = false;
        self.memory.runtime = false;
        let error = Error::new(Code::BackendRuntimeError, "the runtime cannot be started");
        self.sure(WorkerInput::SpawnFailed { error }, env);
    }

    /// Opens a new connection. Frames of the previous one may still arrive.
    pub(super) fn connect(&mut self, env: &mut WorldContext) {
        self.memory.unanswered.clear();
        self.memory.greeted = false;
        self.disconnect();
        let stops =
            matches!(self.checker.worker.state, LifecycleState::Stopping(_) | LifecycleState::Stopped);
        let desired = if stops { Desired::Stop } else { Desired::Run };
        if self.is_cut() {
            return;
        }
        let Some(live) = &mut self.live else { return };
        env.connections += 1;
        let hello = ToRuntime::Hello { protocol: PROTOCOL, generation: env.generation, desired };
        live.connections.push(SimulatedConnection {
            id: env.connections,
            to_runtime: [serde_json::to_vec(&hello).unwrap()].into(),
            to_daemon: std::collections::VecDeque::new(),
            greeted: false,
            held: true,
            dropped: false,
        });
        self.memory.connection = Some(env.connections);
    }

    /// Closes the daemon's end of its connection.
    pub(super) fn disconnect(&mut self) {
        self.memory.connection = None;
        for open in self.live.iter_mut().flat_map(|live| &mut live.connections) {
            open.held = false;
            open.to_daemon.clear();
        }
    }

    /// Ingests the journal in transactions of a few records.
    pub(super) fn ingest(&mut self, goal: ReadUntil, env: &mut WorldContext) {
        let mut left_in_batch = env.random.below(6) + 1;
        self.memory.more = false;
        if self.is_cut() {
            return;
        }
        loop {
            if env.daemon_dies {
                return;
            }
            let cursor = self.stored.cursor;
            let Some(bytes) = self.journal.get(&cursor.segment) else {
                match self.journal.keys().find(|segment| **segment > cursor.segment).copied() {
                    Some(segment) => self.stored.cursor = Cursor { segment, offset: 0, ..cursor },
                    None => return,
                }
                continue;
            };
            let start = usize::try_from(cursor.offset).unwrap();
            let rest = bytes.get(start..).unwrap_or_default();
            let (json, size) = match codec::decode(rest, codec::MAX_RECORD_BYTES) {
                Decoded::Record { json, size } => (json.to_owned(), size),
                Decoded::Corrupt(_) | Decoded::Incomplete { .. } => {
                    assert!(!self.journal.contains_key(&(cursor.segment + 1)), "a runtime too many");
                    return;
                }
            };
            let record: JournalRecord<'_> = serde_json::from_slice(&json).unwrap();
            // 2: record numbers have no gap and no duplicate.
            assert_eq!(record.n, cursor.number + 1, "a record is missing or there twice");
            self.stored.cursor =
                Cursor { segment: cursor.segment, offset: cursor.offset + size as u64, number: record.n };
            if env.broken == Some(Break::TornTransaction) && env.random.below(20) == 0 {
                env.daemon_dies = true;
                return;
            }
            let mut aside = SessionUpdates::default();
            if matches!(record.t, RecordType::ApprovalRequested | RecordType::ElicitationRequested) {
                let body: ApprovalRequested = record.body().unwrap();
                self.asks.insert(body.request_id, ask_of(body.params.get()));
            }
            let known_turn = self.checker.worker.known_turn;
            let meaning = input(&record, known_turn, &mut aside, |error| error).unwrap();
            self.stored.proof = record.t == RecordType::Ended;
            self.memory.clean_end = aside.ended;
            if aside.session_id.is_some() {
                self.stored.session = aside.session_id;
            }
            self.stored.instructed = aside.instructed.unwrap_or(self.stored.instructed);
            let asked = match &meaning {
                Some(WorkerInput::ApprovalRequested { request_id }) => Some(request_id.clone()),
                _ => None,
            };
            let over = match &meaning {
                Some(WorkerInput::Dispatching { turn }) => turn % 5 == 2,
                Some(WorkerInput::CostReported { .. }) => true,
                _ => false,
            };
            if let Some(meaning) = meaning {
                self.step(sometimes_limited(meaning, &record));
            }
            if over && env.broken.is_none() && self.memory.settled {
                // The budget is used up, which is stored in a transaction of its own.
                let error = Error::new(Code::BudgetExceeded, "the worker has used all");
                env.tally.over_budget += 1;
                self.sure(WorkerInput::OverBudget { error }, env);
            }
            if let Some(request_id) = asked {
                self.decide_by_rule(request_id, env);
            }
            left_in_batch -= 1;
            if left_in_batch == 0 {
                left_in_batch = env.random.below(6) + 1;
                env.after_commit();
                if goal == ReadUntil::Some {
                    self.memory.more = true;
                    return;
                }
            }
            if matches!(goal, ReadUntil::Record(number) if self.stored.cursor.number >= number) {
                self.memory.more = true;
                return env.after_commit();
            }
        }
    }

    /// An owner's rule decides every fourth request, in the transaction of its record.
    fn decide_by_rule(&mut self, request_id: RequestId, env: &mut WorldContext) {
        let whole = self.checker.worker.state != LifecycleState::Stopped && env.broken.is_none();
        if !whole || self.asks.get(&request_id).is_none_or(|ask| ask % 4 != 3) {
            return;
        }
        let option = "allow".to_owned();
        let choice =
            PermissionDecision { option_id: Some(option.clone()), alias: None, decision: option.clone() };
        let rule = DecidingRule {
            action: option.clone(),
            kind: "execute".to_owned(),
            subject: None,
            rule: Some("execute".to_owned()),
            layer: None,
            source: None,
            line: None,
            path: None,
            note: None,
        };
        self.decided.insert(request_id.clone(), Some(option));
        self.step(WorkerInput::DecideByRule { request_id, choice, rule });
    }

    /// Steps the rules, which must accept the input. Actions wait for the end of the transaction.
    fn step(&mut self, input: WorkerInput) {
        match self.checker.step(&input) {
            Ok(actions) => self.memory.todo.extend(actions),
            Err(code) => panic!("{code} for {input:?} in {:?}", self.checker.worker),
        }
    }

    /// Same as `step`, in a transaction of its own.
    pub(super) fn sure(&mut self, input: WorkerInput, env: &mut WorldContext) {
        self.step(input);
        env.after_commit();
    }

    /// Performs the rules' actions, and continues reading the journal when more is known to exist.
    pub(super) fn carry_on(&mut self, env: &mut WorldContext) {
        while self.memory.more && !env.daemon_dies && (env.calm || env.random.below(4) == 0) {
            self.ingest(ReadUntil::Some, env);
        }
        while !env.daemon_dies
            && let Some(action) = self.memory.todo.pop_front()
        {
            match action {
                WorkerAction::StartRuntime => self.start_runtime(env),
                WorkerAction::Prompt { turn } => {
                    let given = |asked: &SimulatedCommand| matches!(asked, SimulatedCommand::Prompt(given) if *given == turn);
                    let open = self.checker.worker.turn().filter(|open| open.no == turn);
                    let Some(open) = open.filter(|_| !self.memory.unanswered.values().any(given)) else {
                        continue;
                    };
                    let turn_id = open.id.clone();
                    let prompt = vec![serde_json::json!({"type": "text", "text": self.text(turn)})];
                    self.command(RuntimeCommand::Prompt {
                        turn,
                        turn_id,
                        prompt,
                        attachments: vec![],
                        change: None,
                    });
                }
                WorkerAction::Cancel { turn, reason } => {
                    self.command(RuntimeCommand::Cancel { turn, reason })
                }
                WorkerAction::Answer { request_id, option_id } => self.answer(request_id, option_id),
                WorkerAction::Hibernate { last_turn } => {
                    self.command(RuntimeCommand::Hibernate { last_turn, reason: "idle".to_owned() });
                }
                WorkerAction::Terminate => {
                    self.command(RuntimeCommand::Terminate { reason: "stopped".to_owned() })
                }
            }
        }
        if !env.daemon_dies
            && matches!(self.checker.worker.state, LifecycleState::Stopping(_))
            && !self.memory.runtime
        {
            self.check_leftovers(env);
        }
        if !env.daemon_dies && self.memory.settled && (env.calm || env.random.below(4) == 0) {
            self.look_at_budgets(env);
        }
        let due = self.checker.worker.unparks_at().is_some();
        if due && !env.daemon_dies && self.memory.settled && (env.calm || env.random.below(8) == 0) {
            self.sure(WorkerInput::ParkingOver, env);
            self.carry_on(env);
        }
    }

    /// Changes whether the worker is limited, and opens or refuses the next queued message.
    fn look_at_budgets(&mut self, env: &mut WorldContext) {
        self.checker.worker.queue.gated = self.task.is_some() || env.random.below(3) == 0;
        if self.checker.worker.waits_to_open() && self.has_place(env) {
            let error = Error::new(Code::BudgetExceeded, "the worker has used all");
            let refused = (!env.calm && env.random.below(4) == 0).then_some(error);
            env.tally.over_budget += u64::from(refused.is_some());
            self.sure(WorkerInput::OpenQueued { refused }, env);
            self.carry_on(env);
        }
    }

    fn answer(&mut self, request_id: RequestId, option_id: Option<String>) {
        let asked = self.checker.worker.approvals.get(&request_id).map(|asked| asked.kind);
        if asked != Some(QuestionKind::Elicitation) {
            return self.command(RuntimeCommand::Answer { request_id, option_id, rule: None });
        }
        let action = option_id.as_deref().map_or(Some(ElicitationAction::Cancel), ElicitationAction::parse);
        // The content of an answer is kept by the store.
        let kept = self.checker.rows.contents().any(|(kept, _)| *kept == request_id);
        let content = kept.then(|| Secret(serde_json::json!({"a": "x"}).as_object().unwrap().clone()));
        self.command(RuntimeCommand::AnswerElicitation { request_id, action: action.unwrap(), content });
    }

    pub(super) fn command(&mut self, command: RuntimeCommand) {
        let Some(live) = self.live.as_mut().filter(|_| self.memory.greeted) else { return };
        let used = self.memory.connection;
        let Some(open) = live.connections.iter_mut().find(|open| Some(open.id) == used) else { return };
        self.memory.next_id += 1;
        let id = self.memory.next_id;
        let asked = match &command {
            RuntimeCommand::Prompt { turn, .. } => SimulatedCommand::Prompt(*turn),
            RuntimeCommand::Cancel { turn, .. } => SimulatedCommand::Cancel(*turn),
            RuntimeCommand::Answer { request_id, .. }
            | RuntimeCommand::AnswerElicitation { request_id, .. } => {
                SimulatedCommand::Answer(request_id.clone())
            }
            RuntimeCommand::Terminate { .. } => SimulatedCommand::Terminate,
            RuntimeCommand::Hibernate { .. } => SimulatedCommand::Hibernate,
            // Options and child sessions are not simulated: no accepted work depends on them.
            RuntimeCommand::SetOptions { .. } | RuntimeCommand::CancelChild { .. } => return,
        };
        self.memory.unanswered.insert(id, asked);
        open.to_runtime.push_back(serde_json::to_vec(&ToRuntime::Command { id, command }).unwrap());
    }

    /// Delivers a frame to the daemon.
    pub(super) fn frame_to_daemon(&mut self, env: &mut WorldContext) -> bool {
        let used = self.memory.connection;
        let Some(live) = &mut self.live else { return false };
        let Some(open) = live.connections.iter_mut().find(|open| Some(open.id) == used) else { return false };
        if open.to_daemon.is_empty() {
            if open.dropped {
                self.disconnect();
            }
            return false;
        }
        let Some(line) = env.network(&mut open.to_daemon, !self.memory.greeted) else { return true };
        match serde_json::from_slice(&line).unwrap() {
            FromRuntime::Hello(hello) => self.on_hello(&hello, env),
            FromRuntime::Refused { refusal, .. } => panic!("the newest daemon is refused: {refusal:?}"),
            FromRuntime::End(_) => self.ingest(ReadUntil::Some, env),
            FromRuntime::Reply { id, refusal } => {
                let asked = self.memory.unanswered.remove(&id);
                if let (Some(asked), Some(refusal)) = (asked, refusal) {
                    self.on_refusal(asked, refusal, env);
                }
            }
        }
        true
    }

    fn on_hello(&mut self, hello: &RuntimeHello, env: &mut WorldContext) {
        self.memory.greeted = true;
        assert_eq!(hello.incarnation, self.stored.incarnation, "an earlier runtime answers");
        self.ingest(ReadUntil::Record(hello.journal_end.number), env);
        if env.daemon_dies {
            return;
        }
        self.memory.settled = true;
        if env.broken == Some(Break::NothingIsSaidAgain) {
            return;
        }
        let link = match hello.phase {
            RuntimePhase::Starting => RuntimeStatus::Starting,
            RuntimePhase::Ready => RuntimeStatus::Ready,
            RuntimePhase::Ending | RuntimePhase::Failed { .. } => RuntimeStatus::Ending,
        };
        self.sure(WorkerInput::Attached { link, last_turn: hello.last_turn }, env);
        if env.daemon_dies {
            return;
        }
        let open = self.checker.worker.turn().map(|turn| turn.no);
        if let Some(open) = open
            && hello.last_turn >= open
            && hello.open_turn != Some(open)
            && self.stored.cursor.number >= hello.journal_end.number
        {
            self.end_unknown_turn(open, env);
        }
    }

    fn on_refusal(&mut self, asked: SimulatedCommand, refusal: Refusal, env: &mut WorldContext) {
        self.ingest(ReadUntil::End, env);
        if env.daemon_dies {
            return;
        }
        match (asked, refusal) {
            (SimulatedCommand::Prompt(turn), Refusal::WrongTurn { last }) if last >= turn => {}
            (SimulatedCommand::Prompt(turn), Refusal::NotReady | Refusal::Ending) => {
                self.sure(WorkerInput::PromptRefused { turn, error: None }, env);
            }
            (SimulatedCommand::Prompt(turn), Refusal::StorageFull) => {
                let error = Error::new(Code::StorageFull, "the disk is full").retryable();
                self.sure(WorkerInput::PromptRefused { turn, error: Some(error) }, env);
            }
            (SimulatedCommand::Prompt(turn), refusal) => {
                let error = Error::new(Code::BackendRuntimeError, format!("{refusal:?}"));
                self.sure(WorkerInput::PromptRefused { turn, error: Some(error) }, env);
            }
            (SimulatedCommand::Answer(_), Refusal::StorageFull) => self.disconnect(),
            (SimulatedCommand::Answer(request_id), _) => {
                self.sure(WorkerInput::AnswerRefused { request_id }, env)
            }
            (SimulatedCommand::Cancel(turn), Refusal::NoSuchTurn)
                if self.checker.worker.turn().is_some_and(|open| open.no == turn && open.dispatching) =>
            {
                self.disconnect();
            }
            (SimulatedCommand::Hibernate, Refusal::Ending) => {}
            (SimulatedCommand::Hibernate, _) => self.sure(WorkerInput::HibernateRefused, env),
            (SimulatedCommand::Cancel(_) | SimulatedCommand::Terminate, _) => {}
        }
    }

    fn end_unknown_turn(&mut self, turn: u64, env: &mut WorldContext) {
        if self.checker.worker.turn().is_some_and(|open| open.no == turn && open.dispatching) {
            env.tally.unknown_ends += 1;
            let error = Error::new(Code::RuntimeLost, "the end of the turn could not be read");
            let end = TurnEnd::Failed { error: error.with("dispatched", "maybe") };
            self.sure(WorkerInput::TurnEnd { turn, end }, env);
        }
    }

    /// The worker reaches its idle timeout.
    pub(super) fn idles(&mut self, env: &mut WorldContext) {
        if self.memory.settled && self.memory.greeted && self.checker.worker.rests() {
            self.sure(WorkerInput::Hibernate { idle_seconds: 60 }, env);
        }
    }

    /// The daemon notices that the runtime's lock is free. A place that does not answer proves nothing.
    pub(super) fn see_death(&mut self, env: &mut WorldContext) {
        let is_proved = self.live.is_none() && !self.is_cut();
        let gives_up = env.broken == Some(Break::GivenUpUnreached) && self.is_cut();
        if self.memory.runtime && (is_proved || gives_up) {
            self.memory.runtime = false;
            self.disconnect();
            self.gone(env);
        }
    }

    fn gone(&mut self, env: &mut WorldContext) {
        if env.broken != Some(Break::EndIsNotRead) {
            self.ingest(ReadUntil::End, env);
        }
        if env.daemon_dies {
            return;
        }
        self.memory.settled = true;
        self.stored.may_live = false;
        env.tally.hibernations +=
            u64::from(matches!(self.checker.worker.hibernation, Hibernation::Wanted { .. }));
        if env.broken == Some(Break::SentTwice)
            && let LifecycleState::Turn(turn) = &mut self.checker.worker.state
        {
            turn.dispatching = false;
        }
        let rebooted = self.stored.boot != self.boot(env) || self.memory.damaged;
        let clean = self.memory.clean_end;
        self.sure(WorkerInput::RuntimeGone { clean, rebooted, place: None }, env);
    }

    /// Checks whether all processes below the worker have ended.
    fn check_leftovers(&mut self, env: &mut WorldContext) {
        let free = (self.left.is_none() && !self.is_cut()) || env.broken == Some(Break::StoppedTooEarly);
        if free && !self.memory.runtime && self.memory.settled {
            self.sure(WorkerInput::NothingLeft, env);
        }
    }
}
