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
    Action, Cancel, Fact, Hibernation, Input, Link, Restart, STOPPED_BY_MANAGER, State, Step, Turn, Worker,
};

pub(super) fn step(worker: &Worker, input: Input) -> Result<Step> {
    let (limit, input) = match input {
        Input::RateLimited { limit, input } => (Some(limit), *input),
        input => (None, input),
    };
    let mut next = Next { worker: worker.clone(), facts: Vec::new(), actions: Vec::new(), limit };
    match input {
        Input::Send { .. }
        | Input::Enqueue { .. }
        | Input::DropQueued { .. }
        | Input::MoveQueued { .. }
        | Input::ResumeQueue
        | Input::AppendQueued { .. }
        | Input::Decide { .. }
        | Input::Answer { .. }
        | Input::Inbox(_)
        | Input::Cancel { .. }
        | Input::Stop
        | Input::Retire
        | Input::Restart { .. } => {}
        // Inputs about runtimes of a stopped worker are late and ignored.
        _ if worker.state == State::Stopped => {
            return Ok(Step { worker: next.worker, facts: Vec::new(), actions: Vec::new() });
        }
        _ => {}
    }
    match input {
        Input::Send { turn_id, message, input, by } => next.send(turn_id, message, &input, by)?,
        Input::Enqueue { queued, urgency, most } => next.enqueue(queued, urgency, most)?,
        Input::DropQueued { turn_id } => next.drop_queued(&turn_id)?,
        Input::MoveQueued { turn_id, to } => next.move_queued(&turn_id, to)?,
        Input::ResumeQueue => {
            next.resume_queue()?;
            next.unpark(UnparkReason::Resumed);
        }
        Input::ParkingOver => next.unpark(UnparkReason::Due),
        Input::RateLimited { .. } => {
            return Err(Error::new(Code::Internal, "a rate limit is reported of nothing that failed"));
        }
        Input::Decide { request_id, choice, note } => {
            next.decide_as(request_id, choice, note, DecidedBy::Owner, None)?;
        }
        Input::Inbox(input) => next.inbox(input)?,
        Input::DecideByRule { request_id, choice, rule } => next.decide_by_rule(request_id, choice, &rule)?,
        Input::HoldForHooks { request_id } => next.hold_for_hooks(request_id),
        Input::HooksAnswered { request_id, outcome } => next.hooks_answered(request_id, outcome)?,
        Input::Violation { turn, call } => next.violation(turn, call)?,
        Input::OverBudget { error } => next.over_budget(error)?,
        Input::CostReported { cost } => next.facts.push(Fact::Spent(Spent::Cost(cost))),
        Input::Answer { request_id, reply } => next.answer(request_id, reply)?,
        Input::Cancel { reason } => next.cancel(reason)?,
        Input::Stop => next.stop(),
        Input::Retire => next.retire()?,
        Input::Restart { force } => next.restart(force)?,
        Input::OpenQueued { refused } => next.open_queued(refused),
        Input::Hibernate { idle_seconds } => next.hibernate(idle_seconds),
        Input::HibernateRefused => next.hibernate_refused(),
        Input::EndTask { ending, reason } => next.end_task(ending, &reason)?,
        Input::AppendQueued { turn_id, text } => next.append_queued(turn_id, text)?,
        Input::Wake => next.wake(),
        Input::Session { origin, context_lost, context_lost_reason, took_ms } => {
            if origin == SessionOrigin::New {
                next.facts.push(Fact::Spent(Spent::NewSession));
            }
            // A starting worker never had a session, so even a resumed session is its first.
            let first =
                next.worker.state == State::Starting || (origin == SessionOrigin::New && !context_lost);
            // A session of a runtime that must end does not start the worker.
            if next.worker.restart != Restart::Wanted && next.worker.link != Link::Ending {
                if next.worker.state == State::Starting {
                    next.worker.state = State::Idle;
                }
                next.worker.link = Link::Ready;
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
        Input::StartFailed { error } => {
            next.worker.link = Link::Ending;
            next.start_failed(error);
        }
        Input::SpawnFailed { error } => {
            next.worker.link = Link::None;
            next.worker.restart = Restart::None;
            // Not stopped yet: processes of an earlier agent may have caused the failure.
            next.start_failed(error);
        }
        Input::Dispatching { turn } => {
            next.open_turn(turn)?.dispatching = true;
            next.facts.push(Fact::TurnDispatching { no: turn });
        }
        Input::TurnRecovered { turn, turn_id } => next.recover_turn(turn, turn_id)?,
        Input::ApprovalRecovered { request_id } => next.recover_approval(request_id),
        Input::ApprovalRequested { request_id } => next.asked(request_id, QuestionKind::Permission)?,
        Input::ElicitationRequested { request_id } => next.asked(request_id, QuestionKind::Elicitation)?,
        Input::ApprovalClosed { request_id, reason } => {
            next.end_approval(&request_id, &ApprovalInput::Closed(reason));
        }
        Input::AnswerWritten { request_id } => next.end_approval(&request_id, &ApprovalInput::AnswerWritten),
        Input::AnswerRefused { request_id } => next.end_approval(&request_id, &ApprovalInput::AnswerRefused),
        Input::PromptRefused { turn, error } => next.prompt_refused(turn, error),
        Input::CancelRequested { turn, reason } => {
            let open = next.open_turn(turn)?;
            // The first reason stays, because clients have seen it.
            let reason = open.cancel.take().map_or(reason, |cancel| cancel.reason);
            let cancel = Cancel { reason, requested: true };
            open.cancel = Some(cancel.clone());
            next.facts.push(Fact::TurnCancel { no: turn, cancel });
        }
        Input::TurnEnd { turn, end } => {
            next.open_turn(turn)?;
            next.close_turn(Some(end));
        }
        Input::Ending => next.ending(None),
        Input::Terminating { reason } => next.ending(Some(reason)),
        Input::RuntimeGone { clean, rebooted } => next.runtime_gone(clean, rebooted),
        Input::Attached { link, last_turn } => next.attached(link, last_turn),
        Input::NothingLeft => next.stopped_if_stopping(),
    }
    next.open_next();
    next.spend(worker);
    Ok(Step { worker: next.worker, facts: next.facts, actions: next.actions })
}

/// The next state while it is being built.
pub(super) struct Next {
    pub(super) worker: Worker,
    pub(super) facts: Vec<Fact>,
    pub(super) actions: Vec<Action>,
    /// The rate limit that the input reports, until it is handled.
    pub(super) limit: Option<Limit>,
}

impl Next {
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
            State::Stopped | State::Stopping(_) => return,
            State::Starting | State::Idle | State::Error => self.worker.state = State::Stopping(None),
            State::Turn(turn) => {
                let mut turn = turn.clone();
                if turn.cancel.is_none() {
                    let cancel = Cancel { reason: STOPPED_BY_MANAGER.to_owned(), requested: false };
                    self.facts.push(Fact::TurnCancel { no: turn.no, cancel: cancel.clone() });
                    turn.cancel = Some(cancel);
                }
                self.worker.state = State::Stopping(Some(turn));
            }
            State::Local(local) => {
                let local = local.clone();
                self.stop_local(&local, STOPPED_BY_MANAGER);
                self.worker.state = State::Stopping(None);
            }
        }
        self.worker.restart = Restart::None;
        self.worker.hibernation = Hibernation::None;
        self.worker.parking = Parking::default();
        self.facts.push(Fact::DesiredStop);
        self.drop_all_queued();
        match self.worker.link {
            // The guard still ends processes of an earlier runtime; `NothingLeft` follows.
            Link::None => self.close_turn(None),
            Link::Adopted | Link::Starting | Link::Ready | Link::Ending => {
                self.actions.push(Action::Terminate);
            }
        }
    }

    /// Stops a worker that has failed and has no runtime, for its removal.
    fn retire(&mut self) -> Result<()> {
        match (&self.worker.state, self.worker.link) {
            (State::Stopping(_) | State::Stopped, _) | (State::Error, Link::None) => {
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
        if let State::Turn(Turn { no, dispatching: false, cancel: None, .. }) = self.worker.state
            && self.worker.link == Link::Ready
        {
            self.actions.push(Action::Prompt { turn: no });
        }
    }

    fn start_failed(&mut self, error: Error) {
        if self.worker.restart == Restart::Begun {
            self.worker.restart = Restart::None;
        }
        self.worker.hibernation = Hibernation::None;
        self.facts.push(Fact::LastError(Some(error.clone())));
        match &self.worker.state {
            State::Starting => {
                self.worker.state = State::Error;
                if !self.park(None) {
                    self.pause(QueuePause::StartFailed, None);
                }
            }
            State::Turn(Turn { dispatching: true, .. }) => {
                self.close_turn(Some(TurnEnd::Failed { error }));
            }
            State::Turn(turn) => {
                let held = turn.cancel.is_none().then(|| turn.id.clone());
                // The turn provably did not start, so the next runtime gets it.
                if held.is_some_and(|id| self.park(Some(&id))) {
                    return;
                }
                self.close_turn(Some(TurnEnd::Failed { error: error.with("dispatched", "no") }));
            }
            State::Stopping(_) => self.close_turn(None),
            State::Idle | State::Local(_) | State::Error | State::Stopped => {}
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
            None if self.worker.link == Link::Ready => self.worker.link = Link::Ending,
            None => {}
            Some(error) => self.close_turn(Some(TurnEnd::Failed { error: error.with("dispatched", "no") })),
        }
    }

    pub(super) fn open_turn(&mut self, no: u64) -> Result<&mut Turn> {
        match &mut self.worker.state {
            State::Turn(turn) | State::Stopping(Some(turn)) if turn.no == no => Ok(turn),
            State::Starting
            | State::Idle
            | State::Turn(_)
            | State::Local(_)
            | State::Stopping(_)
            | State::Error
            | State::Stopped => {
                Err(Error::new(Code::Internal, format!("the journal speaks of turn {no}, which is not open")))
            }
        }
    }

    fn ending(&mut self, reason: Option<String>) {
        if self.worker.link != Link::None {
            self.worker.link = Link::Ending;
        }
        // A runtime that is asked to end cancels its turn. This is stored, because a daemon that
        // restarts before the end of the turn must reach the same result.
        let stopping =
            matches!(self.worker.state, State::Stopping(_)) || self.worker.restart == Restart::Wanted;
        let (State::Stopping(Some(turn)) | State::Turn(turn)) = &mut self.worker.state else { return };
        let by_others = turn.cancel.is_none();
        let cancel = match (&turn.cancel, reason) {
            (Some(cancel), _) if cancel.requested => return,
            (Some(cancel), told) if stopping || told.is_some() => cancel.reason.clone(),
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
    fn attached(&mut self, told: Link, last_turn: u64) {
        if self.attached_awake(told, last_turn) {
            return;
        }
        // The runtime was ready when it took the turn. Neither the turn nor the runtime's end is in
        // the journal yet, so no cancel may assume that no runtime has the prompt.
        let unwritten = self.worker.turn().is_some_and(|turn| !turn.dispatching && turn.no <= last_turn);
        let known = if unwritten { told.min(Link::Ready) } else { told };
        // A hello can be older than what was read from the journal. A runtime only moves forward.
        self.worker.link = self.worker.link.max(known);
        let link = self.worker.link;
        if link == Link::Ready && self.worker.hibernation == Hibernation::Begun {
            // The store was replaced by an older copy and describes an earlier runtime.
            self.worker.hibernation = Hibernation::None;
        }
        // The runtime does not accept a turn number twice.
        self.worker.last_turn = self.worker.last_turn.max(last_turn);
        match &self.worker.state {
            State::Stopping(_) => self.actions.push(Action::Terminate),
            // The old runtime did not get the command to end.
            State::Idle | State::Local(_) | State::Turn(_)
                if self.worker.restart == Restart::Wanted && told < Link::Ending =>
            {
                return self.end_for_restart();
            }
            State::Turn(turn) => {
                let (no, cancel) = (turn.no, turn.cancel.clone());
                let unsent = !turn.dispatching && turn.no > last_turn;
                let untaken = turn.dispatching && turn.no > last_turn && told != Link::Ending;
                match cancel {
                    _ if untaken => self.end_untaken(),
                    None if unsent && link == Link::Ready => self.actions.push(Action::Prompt { turn: no }),
                    // The runtime did not get the turn, and will not get it.
                    Some(_) if unsent && told != Link::Ending => self.close_turn(None),
                    Some(cancel) if !cancel.requested && link == Link::Ready => {
                        self.actions.push(Action::Cancel { turn: no, reason: cancel.reason });
                    }
                    _ => {}
                }
            }
            _ => {}
        }
        for (request_id, asked) in &self.worker.approvals {
            if let Approval::Decided { option_id } = &asked.approval {
                let (request_id, option_id) = (request_id.clone(), option_id.clone());
                self.actions.push(Action::Answer { request_id, option_id });
            }
        }
    }

    fn runtime_gone(&mut self, clean: bool, rebooted: bool) {
        let was = self.worker.restart;
        self.worker.link = Link::None;
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
            State::Starting => {
                self.worker.state = State::Error;
                self.facts.push(Fact::LastError(Some(runtime_lost(None))));
                self.pause(QueuePause::StartFailed, None);
            }
            // The turn waits for the end of a rate limit, and is then given to the next runtime.
            State::Turn(_) if !rebooted && holds_turn => {}
            // The whole journal was read and contains no record of the prompt. Another runtime may
            // take it, so that an accepted turn is executed once.
            State::Turn(Turn { dispatching: false, cancel: None, .. })
                if !rebooted && was == Restart::Wanted =>
            {
                // The runtime was ended on request.
                return self.begin_restart();
            }
            State::Turn(Turn { dispatching: false, cancel: None, .. }) if !rebooted && hibernated => {
                return self.start_for_waking();
            }
            State::Turn(Turn { no, dispatching: false, retried: retried @ false, cancel: None, .. })
                if !rebooted =>
            {
                // Only once, because an agent that always dies would be restarted without end. A
                // restart continues.
                *retried = true;
                self.facts.push(Fact::TurnRetried { no: *no });
                self.worker.link = Link::Starting;
                self.actions.push(Action::StartRuntime);
                return;
            }
            State::Turn(_) | State::Stopping(Some(_)) => self.turn_lost(rebooted),
            State::Idle | State::Local(_) if was == Restart::Begun => {
                // The runtime had no prompt. The client can request another restart.
                self.facts.push(Fact::LastError(Some(runtime_lost(None).retryable())));
            }
            State::Idle | State::Local(_) if !clean && !hibernated => {
                self.facts.push(Fact::LastError(Some(runtime_lost(None))));
            }
            State::Idle | State::Local(_) | State::Stopping(None) | State::Error | State::Stopped => {}
        }
        match (was, &self.worker.state) {
            (Restart::Wanted, State::Idle | State::Local(_) | State::Error) => return self.begin_restart(),
            // The new runtime is gone, too.
            _ => self.worker.restart = Restart::None,
        }
        if !hibernated && (!clean || was == Restart::Begun) {
            self.worker.hibernation = Hibernation::None;
        }
    }

    fn stopped_if_stopping(&mut self) {
        if matches!(self.worker.state, State::Stopping(_)) && self.worker.link == Link::None {
            self.close_turn(None);
            self.end_approvals(&ApprovalInput::Lost, |_| true);
            self.worker.state = State::Stopped;
            self.event(EventType::WorkerStopped, json!({}), None);
        }
    }
}
