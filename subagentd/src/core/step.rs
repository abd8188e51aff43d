//! The transition function of a worker: one arm for each input.

use serde_json::{Value, json};
use subagent_protocol::api::DecidedBy;
use subagent_protocol::event::EventType;
use subagent_protocol::ids::RequestId;
use subagent_protocol::record::{SessionOrigin, TurnEnd};
use subagent_protocol::state::{QuestionKind, QueuePause, UnparkReason};
use subagent_protocol::{Code, Error, Result};

use super::approval::{Approval, ApprovalInput};
use super::budget::Spent;
use super::lost::runtime_lost;
use super::rate_limit::{Limit, Parking};
use super::worker::{
    Cancel, Fact, Hibernation, LifecycleState, Restart, RuntimeStatus, RuntimeTurn, STOPPED_BY_MANAGER,
    Transition, Worker, WorkerAction, WorkerInput,
};

pub(super) fn step(worker: &Worker, input: WorkerInput) -> Result<Transition> {
    let (limit, input) = match input {
        WorkerInput::RateLimited { limit, input } => (Some(limit), *input),
        input => (None, input),
    };
    let mut next =
        TransitionBuilder { worker: worker.clone(), facts: Vec::new(), actions: Vec::new(), limit };
    match input {
        WorkerInput::Send { .. }
        | WorkerInput::Enqueue { .. }
        | WorkerInput::DropQueued { .. }
        | WorkerInput::MoveQueued { .. }
        | WorkerInput::ResumeQueue
        | WorkerInput::AppendQueued { .. }
        | WorkerInput::Decide { .. }
        | WorkerInput::Answer { .. }
        | WorkerInput::Inbox(_)
        | WorkerInput::Cancel { .. }
        | WorkerInput::Stop
        | WorkerInput::Retire
        | WorkerInput::Restart { .. } => {}
        // Inputs about runtimes of a stopped worker are late and ignored.
        _ if worker.state == LifecycleState::Stopped => {
            return Ok(Transition { worker: next.worker, facts: Vec::new(), actions: Vec::new() });
        }
        _ => {}
    }
    match input {
        WorkerInput::Send { turn_id, message, input, by } => next.send(turn_id, message, &input, by)?,
        WorkerInput::Enqueue { queued, urgency, most } => next.enqueue(queued, urgency, most)?,
        WorkerInput::DropQueued { turn_id } => next.drop_queued(&turn_id)?,
        WorkerInput::MoveQueued { turn_id, to } => next.move_queued(&turn_id, to)?,
        WorkerInput::ResumeQueue => {
            next.resume_queue()?;
            next.unpark(UnparkReason::Resumed);
        }
        WorkerInput::ParkingOver => next.unpark(UnparkReason::Due),
        WorkerInput::RateLimited { .. } => {
            return Err(Error::new(Code::Internal, "a rate limit is reported of nothing that failed"));
        }
        WorkerInput::Decide { request_id, choice, note } => {
            next.decide_as(request_id, choice, note, DecidedBy::Owner, None)?;
        }
        WorkerInput::Inbox(input) => next.inbox(input)?,
        WorkerInput::DecideByRule { request_id, choice, rule } => {
            next.decide_by_rule(request_id, choice, &rule)?
        }
        WorkerInput::HoldForHooks { request_id } => next.hold_for_hooks(request_id),
        WorkerInput::HooksAnswered { request_id, outcome } => next.hooks_answered(request_id, outcome)?,
        WorkerInput::Violation { turn, call } => next.violation(turn, call)?,
        WorkerInput::OverBudget { error } => next.over_budget(error)?,
        WorkerInput::CostReported { cost } => next.facts.push(Fact::Spent(Spent::Cost(cost))),
        WorkerInput::Answer { request_id, reply } => next.answer(request_id, reply)?,
        WorkerInput::Cancel { turn: None, reason } => next.cancel(reason)?,
        WorkerInput::Cancel { turn: Some(turn), reason } => next.cancel_only(&turn, reason)?,
        WorkerInput::Stop => next.stop(),
        WorkerInput::Retire => next.retire()?,
        WorkerInput::Restart { force } => next.restart(force)?,
        WorkerInput::OpenQueued { refused } => next.open_queued(refused),
        WorkerInput::Hibernate { idle_seconds } => next.hibernate(idle_seconds),
        WorkerInput::HibernateRefused => next.hibernate_refused(),
        WorkerInput::EndTask { ending, reason } => next.end_task(ending, &reason)?,
        WorkerInput::AppendQueued { turn_id, text } => next.append_queued(turn_id, text)?,
        WorkerInput::Wake => next.wake(),
        WorkerInput::Session { origin, context_lost, context_lost_reason, took_ms } => {
            if origin == SessionOrigin::New {
                next.facts.push(Fact::Spent(Spent::NewSession));
            }
            // A starting worker never had a session, so even a resumed session is its first.
            let first = next.worker.state == LifecycleState::Starting
                || (origin == SessionOrigin::New && !context_lost);
            // A session of a runtime that must end does not start the worker.
            if next.worker.restart != Restart::Wanted && next.worker.link != RuntimeStatus::Ending {
                if next.worker.state == LifecycleState::Starting {
                    next.worker.state = LifecycleState::Idle;
                }
                next.worker.link = RuntimeStatus::Ready;
                next.worker.restart = Restart::None;
                let event_type = if first { EventType::WorkerStarted } else { EventType::WorkerRestarted };
                let mut data = json!({"session": origin, "contextLost": context_lost});
                if let Some(reason) = context_lost_reason {
                    data["contextLostReason"] = reason.into();
                }
                if next.is_awake() {
                    data["hibernated"] = true.into();
                    if let Some(took_ms) = took_ms {
                        data["tookMs"] = took_ms.into();
                    }
                }
                next.event(event_type, data, None);
            }
            next.prompt_if_waiting();
        }
        WorkerInput::StartFailed { error } => {
            next.worker.link = RuntimeStatus::Ending;
            next.start_failed(error);
        }
        WorkerInput::SpawnFailed { error } => {
            next.worker.link = RuntimeStatus::None;
            next.worker.restart = Restart::None;
            // Not stopped yet: processes of an earlier agent may have caused the failure.
            next.start_failed(error);
        }
        WorkerInput::Dispatching { turn } => {
            next.open_turn(turn)?.dispatching = true;
            next.facts.push(Fact::TurnDispatching { no: turn });
        }
        WorkerInput::TurnRecovered { turn, turn_id } => next.recover_turn(turn, turn_id)?,
        WorkerInput::ApprovalRecovered { request_id } => next.recover_approval(request_id),
        WorkerInput::ApprovalRequested { request_id } => next.asked(request_id, QuestionKind::Permission)?,
        WorkerInput::ElicitationRequested { request_id } => {
            next.asked(request_id, QuestionKind::Elicitation)?
        }
        WorkerInput::ApprovalClosed { request_id, reason } => {
            next.end_approval(&request_id, &ApprovalInput::Closed(reason));
        }
        WorkerInput::AnswerWritten { request_id } => {
            next.end_approval(&request_id, &ApprovalInput::AnswerWritten)
        }
        WorkerInput::AnswerRefused { request_id } => {
            next.end_approval(&request_id, &ApprovalInput::AnswerRefused)
        }
        WorkerInput::PromptRefused { turn, error } => next.prompt_refused(turn, error),
        WorkerInput::CancelRequested { turn, reason } => {
            let open = next.open_turn(turn)?;
            // The first reason stays, because clients have seen it.
            let reason = open.cancel.take().map_or(reason, |cancel| cancel.reason);
            let cancel = Cancel { reason, requested: true };
            open.cancel = Some(cancel.clone());
            next.facts.push(Fact::TurnCancel { no: turn, cancel });
        }
        WorkerInput::TurnEnd { turn, end } => {
            next.open_turn(turn)?;
            next.close_turn(Some(end));
        }
        WorkerInput::Ending => next.ending(None),
        WorkerInput::Terminating { reason } => next.ending(Some(reason)),
        WorkerInput::RuntimeGone { clean, rebooted } => next.runtime_gone(clean, rebooted),
        WorkerInput::Attached { link, last_turn } => next.attached(link, last_turn),
        WorkerInput::NothingLeft => next.stopped_if_stopping(),
    }
    next.open_next();
    next.spend(worker);
    Ok(Transition { worker: next.worker, facts: next.facts, actions: next.actions })
}

/// The next state while it is being built.
pub(super) struct TransitionBuilder {
    pub(super) worker: Worker,
    pub(super) facts: Vec<Fact>,
    pub(super) actions: Vec<WorkerAction>,
    /// The rate limit that the input reports, until it is handled.
    pub(super) limit: Option<Limit>,
}

impl TransitionBuilder {
    pub(super) fn event(&mut self, event_type: EventType, data: Value, turn: Option<u64>) {
        self.facts.push(Fact::Event { event_type, data, turn });
    }

    /// Records a decision about an undecided question. Returns the asking turn.
    pub(super) fn take_decision(
        &mut self,
        request_id: &RequestId,
        kind: QuestionKind,
        option_id: Option<&str>,
    ) -> Result<Option<u64>> {
        match self.worker.approvals.get_mut(request_id) {
            Some(asked) if asked.kind == kind && asked.approval == Approval::Pending => {
                asked.approval = Approval::Decided { option_id: option_id.map(str::to_owned) };
                Ok(asked.turn)
            }
            Some(asked) if asked.kind == kind => {
                let message = "the question was decided already";
                let error = Error::new(Code::ApprovalNotPending, message);
                let status = asked.approval.status().as_str();
                Err(error.with("requestId", request_id.as_str()).with("status", status))
            }
            _ => {
                let error = Error::new(Code::ApprovalNotFound, "no such question is open");
                Err(error.with("requestId", request_id.as_str()))
            }
        }
    }

    fn stop(&mut self) {
        match &mut self.worker.state {
            LifecycleState::Stopped | LifecycleState::Stopping(_) => return,
            LifecycleState::Starting | LifecycleState::Idle | LifecycleState::Error => {
                self.worker.state = LifecycleState::Stopping(None)
            }
            LifecycleState::Turn(turn) => {
                let mut turn = turn.clone();
                if turn.cancel.is_none() {
                    let cancel = Cancel { reason: STOPPED_BY_MANAGER.to_owned(), requested: false };
                    self.facts.push(Fact::TurnCancel { no: turn.no, cancel: cancel.clone() });
                    turn.cancel = Some(cancel);
                }
                self.worker.state = LifecycleState::Stopping(Some(turn));
            }
            LifecycleState::Local(local) => {
                let local = local.clone();
                self.stop_local(&local, STOPPED_BY_MANAGER);
                self.worker.state = LifecycleState::Stopping(None);
            }
        }
        self.worker.restart = Restart::None;
        self.worker.hibernation = Hibernation::None;
        self.worker.parking = Parking::default();
        self.facts.push(Fact::DesiredStop);
        self.drop_all_queued();
        match self.worker.link {
            // The guard still ends processes of an earlier runtime; `NothingLeft` follows.
            RuntimeStatus::None => self.close_turn(None),
            RuntimeStatus::Adopted
            | RuntimeStatus::Starting
            | RuntimeStatus::Ready
            | RuntimeStatus::Ending => {
                self.actions.push(WorkerAction::Terminate);
            }
        }
    }

    /// Stops a worker that has failed and has no runtime, for its removal.
    fn retire(&mut self) -> Result<()> {
        match (&self.worker.state, self.worker.link) {
            (LifecycleState::Stopping(_) | LifecycleState::Stopped, _)
            | (LifecycleState::Error, RuntimeStatus::None) => {
                self.stop();
                Ok(())
            }
            _ => {
                let state = self.worker.public_state();
                let message = format!("the worker is {state}; only one that is stopped can be removed");
                Err(Error::new(Code::InvalidWorkerState, message).with("state", state.as_str()))
            }
        }
    }

    pub(super) fn prompt_if_waiting(&mut self) {
        if let LifecycleState::Turn(RuntimeTurn { no, dispatching: false, cancel: None, .. }) =
            self.worker.state
            && self.worker.link == RuntimeStatus::Ready
        {
            self.actions.push(WorkerAction::Prompt { turn: no });
        }
    }

    fn start_failed(&mut self, error: Error) {
        if self.worker.restart == Restart::Begun {
            self.worker.restart = Restart::None;
        }
        self.worker.hibernation = Hibernation::None;
        self.facts.push(Fact::LastError(Some(error.clone())));
        match &self.worker.state {
            LifecycleState::Starting => {
                self.worker.state = LifecycleState::Error;
                if !self.park(None) {
                    self.pause(QueuePause::StartFailed, None);
                }
            }
            LifecycleState::Turn(RuntimeTurn { dispatching: true, .. }) => {
                self.close_turn(Some(TurnEnd::Failed { error }));
            }
            LifecycleState::Turn(turn) => {
                let held = turn.cancel.is_none().then(|| turn.id.clone());
                // The turn provably did not start, so the next runtime gets it.
                if held.is_some_and(|id| self.park(Some(&id))) {
                    return;
                }
                self.close_turn(Some(TurnEnd::Failed { error: error.with("dispatched", "no") }));
            }
            LifecycleState::Stopping(_) => self.close_turn(None),
            LifecycleState::Idle
            | LifecycleState::Local(_)
            | LifecycleState::Error
            | LifecycleState::Stopped => {}
        }
    }

    fn prompt_refused(&mut self, turn: u64, error: Option<Error>) {
        if !self.worker.turn().is_some_and(|open| open.no == turn && !open.dispatching) {
            // The turn has ended, or the journal says that the prompt was taken. The refusal
            // belongs to a repetition.
            return;
        }
        match error {
            // Any other state of the link is newer than the refusal: the runtime is gone, or its
            // session will send the prompt.
            None if self.worker.link == RuntimeStatus::Ready => self.worker.link = RuntimeStatus::Ending,
            None => {}
            Some(error) => self.close_turn(Some(TurnEnd::Failed { error: error.with("dispatched", "no") })),
        }
    }

    pub(super) fn open_turn(&mut self, no: u64) -> Result<&mut RuntimeTurn> {
        match &mut self.worker.state {
            LifecycleState::Turn(turn) | LifecycleState::Stopping(Some(turn)) if turn.no == no => Ok(turn),
            LifecycleState::Starting
            | LifecycleState::Idle
            | LifecycleState::Turn(_)
            | LifecycleState::Local(_)
            | LifecycleState::Stopping(_)
            | LifecycleState::Error
            | LifecycleState::Stopped => {
                Err(Error::new(Code::Internal, format!("the journal speaks of turn {no}, which is not open")))
            }
        }
    }

    fn ending(&mut self, reason: Option<String>) {
        if self.worker.link != RuntimeStatus::None {
            self.worker.link = RuntimeStatus::Ending;
        }
        // A runtime that is asked to end cancels its turn. This is stored, because a daemon that
        // restarts before the end of the turn must reach the same result.
        let stopping = matches!(self.worker.state, LifecycleState::Stopping(_))
            || self.worker.restart == Restart::Wanted;
        let (LifecycleState::Stopping(Some(turn)) | LifecycleState::Turn(turn)) = &mut self.worker.state
        else {
            return;
        };
        let by_others = turn.cancel.is_none();
        let cancel = match (&turn.cancel, reason) {
            (Some(cancel), _) if cancel.requested => return,
            (Some(cancel), reported) if stopping || reported.is_some() => cancel.reason.clone(),
            (None, Some(reason)) if turn.dispatching => reason,
            // The agent ended by itself. Its turn failed, or was canceled before.
            _ => return,
        };
        let (cancel, id) = (Cancel { reason: cancel, requested: true }, turn.id.clone());
        turn.cancel = Some(cancel.clone());
        self.facts.push(Fact::TurnCancel { no: turn.no, cancel });
        if by_others {
            self.pause(QueuePause::RuntimeEnded, Some(&id));
        }
    }

    /// Sends again what the runtime may not have received. It takes each of these at most once.
    fn attached(&mut self, reported: RuntimeStatus, last_turn: u64) {
        if self.attached_awake(reported, last_turn) {
            return;
        }
        // The runtime was ready when it took the turn. Neither the turn nor the runtime's end is in
        // the journal yet, so no cancel may assume that no runtime has the prompt.
        let unwritten = self.worker.turn().is_some_and(|turn| !turn.dispatching && turn.no <= last_turn);
        let known = if unwritten { reported.min(RuntimeStatus::Ready) } else { reported };
        // A hello can be older than what was read from the journal. A runtime only moves forward.
        self.worker.link = self.worker.link.max(known);
        let link = self.worker.link;
        if link == RuntimeStatus::Ready && self.worker.hibernation == Hibernation::Begun {
            // The store was replaced by an older copy and describes an earlier runtime.
            self.worker.hibernation = Hibernation::None;
        }
        // The runtime does not accept a turn number twice.
        self.worker.last_turn = self.worker.last_turn.max(last_turn);
        match &self.worker.state {
            LifecycleState::Stopping(_) => self.actions.push(WorkerAction::Terminate),
            // The old runtime did not get the command to end.
            LifecycleState::Idle | LifecycleState::Local(_) | LifecycleState::Turn(_)
                if self.worker.restart == Restart::Wanted && reported < RuntimeStatus::Ending =>
            {
                return self.end_for_restart();
            }
            LifecycleState::Turn(turn) => {
                let (no, cancel) = (turn.no, turn.cancel.clone());
                let unsent = !turn.dispatching && turn.no > last_turn;
                let untaken = turn.dispatching && turn.no > last_turn && reported != RuntimeStatus::Ending;
                match cancel {
                    _ if untaken => self.end_untaken(),
                    None if unsent && link == RuntimeStatus::Ready => {
                        self.actions.push(WorkerAction::Prompt { turn: no })
                    }
                    // The runtime did not get the turn, and will not get it.
                    Some(_) if unsent && reported != RuntimeStatus::Ending => self.close_turn(None),
                    Some(cancel) if !cancel.requested && link == RuntimeStatus::Ready => {
                        self.actions.push(WorkerAction::Cancel { turn: no, reason: cancel.reason });
                    }
                    _ => {}
                }
            }
            _ => {}
        }
        for (request_id, asked) in &self.worker.approvals {
            if let Approval::Decided { option_id } = &asked.approval {
                let (request_id, option_id) = (request_id.clone(), option_id.clone());
                self.actions.push(WorkerAction::Answer { request_id, option_id });
            }
        }
    }

    fn runtime_gone(&mut self, clean: bool, rebooted: bool) {
        let was = self.worker.restart;
        self.worker.link = RuntimeStatus::None;
        self.end_approvals(&ApprovalInput::Lost, |_| true);
        // The runtime had to end with nothing open, so nothing is lost, however it ended.
        let hibernated = self.hibernates();
        let holds_turn = self.worker.holds_turn();
        if !clean && !hibernated {
            self.event(
                EventType::WorkerLost,
                json!({"reason": "the runtime ended without its last record"}),
                None,
            );
        }
        match &mut self.worker.state {
            LifecycleState::Starting => {
                self.worker.state = LifecycleState::Error;
                self.facts.push(Fact::LastError(Some(runtime_lost(None))));
                self.pause(QueuePause::StartFailed, None);
            }
            // The turn waits for the end of a rate limit, and is then given to the next runtime.
            LifecycleState::Turn(_) if !rebooted && holds_turn => {}
            // The whole journal was read and contains no record of the prompt. Another runtime may
            // take it, so that an accepted turn is executed once.
            LifecycleState::Turn(RuntimeTurn { dispatching: false, cancel: None, .. })
                if !rebooted && was == Restart::Wanted =>
            {
                // The runtime was ended on request.
                return self.begin_restart();
            }
            LifecycleState::Turn(RuntimeTurn { dispatching: false, cancel: None, .. })
                if !rebooted && hibernated =>
            {
                return self.start_for_waking();
            }
            LifecycleState::Turn(RuntimeTurn {
                no,
                dispatching: false,
                retried: retried @ false,
                cancel: None,
                ..
            }) if !rebooted => {
                // Only once, because an agent that always dies would be restarted without end. A
                // restart continues.
                *retried = true;
                self.facts.push(Fact::TurnRetried { no: *no });
                self.worker.link = RuntimeStatus::Starting;
                self.actions.push(WorkerAction::StartRuntime);
                return;
            }
            LifecycleState::Turn(_) | LifecycleState::Stopping(Some(_)) => self.turn_lost(rebooted),
            LifecycleState::Idle | LifecycleState::Local(_) if was == Restart::Begun => {
                // The runtime had no prompt. The client can request another restart.
                self.facts.push(Fact::LastError(Some(runtime_lost(None).retryable())));
            }
            LifecycleState::Idle | LifecycleState::Local(_) if !clean && !hibernated => {
                self.facts.push(Fact::LastError(Some(runtime_lost(None))));
            }
            LifecycleState::Idle
            | LifecycleState::Local(_)
            | LifecycleState::Stopping(None)
            | LifecycleState::Error
            | LifecycleState::Stopped => {}
        }
        match (was, &self.worker.state) {
            (Restart::Wanted, LifecycleState::Idle | LifecycleState::Local(_) | LifecycleState::Error) => {
                return self.begin_restart();
            }
            // The new runtime is gone, too.
            _ => self.worker.restart = Restart::None,
        }
        if !hibernated && (!clean || was == Restart::Begun) {
            self.worker.hibernation = Hibernation::None;
        }
    }

    fn stopped_if_stopping(&mut self) {
        if matches!(self.worker.state, LifecycleState::Stopping(_)) && self.worker.link == RuntimeStatus::None
        {
            self.close_turn(None);
            self.end_approvals(&ApprovalInput::Lost, |_| true);
            self.worker.state = LifecycleState::Stopped;
            self.event(EventType::WorkerStopped, json!({}), None);
        }
    }
}
