//! The transition function of a worker. Everything that can happen is one arm here.

use serde_json::{Value, json};
use subagent_protocol::event::EventType;
use subagent_protocol::fields;
use subagent_protocol::ids::{RequestId, TurnId};
use subagent_protocol::record::{ApprovalClosedReason, SessionOrigin, TurnEnd};
use subagent_protocol::state::{Carrier, Dispatched, QuestionKind, TurnStatus};
use subagent_protocol::{Code, Error, Result};

use super::approval::{Approval, ApprovalInput, Request, event_of};
use super::budget::Spent;
use super::decision::Choice;
use super::lost::{lost, runtime_lost};
use super::worker::{
    Action, By, Cancel, Fact, Hibernation, Input, Link, Restart, STOPPED_BY_MANAGER, State, Step, Turn,
    Worker, stopped_for_good,
};

pub(super) fn step(worker: &Worker, input: Input) -> Result<Step> {
    let mut next = Next { worker: worker.clone(), facts: Vec::new(), actions: Vec::new() };
    match input {
        Input::Send { .. }
        | Input::Decide { .. }
        | Input::Answer { .. }
        | Input::Cancel { .. }
        | Input::Stop
        | Input::Retire
        | Input::Restart { .. } => {}
        // Nothing of it is left: whatever is still said of its runtimes is late news.
        _ if worker.state == State::Stopped => {
            return Ok(Step { worker: next.worker, facts: Vec::new(), actions: Vec::new() });
        }
        _ => {}
    }
    match input {
        Input::Send { turn_id, message, input, by } => next.send(turn_id, message, &input, by)?,
        Input::Decide { request_id, choice, note } => next.decide(request_id, choice, note)?,
        Input::DecideByRule { request_id, choice, rule } => next.decide_by_rule(request_id, choice, &rule)?,
        Input::Violation { turn, call } => next.violation(turn, call)?,
        Input::OverBudget { error } => next.over_budget(error)?,
        Input::CostReported { cost } => next.facts.push(Fact::Spent(Spent::Cost(cost))),
        Input::Answer { request_id, reply } => next.answer(request_id, reply)?,
        Input::Cancel { reason } => next.cancel(reason)?,
        Input::Stop => next.stop(),
        Input::Retire => next.retire()?,
        Input::Restart { force } => next.restart(force)?,
        Input::Hibernate { idle_seconds } => next.hibernate(idle_seconds),
        Input::HibernateRefused => next.hibernate_refused(),
        Input::Wake => next.wake(),
        Input::Session { origin, context_lost, context_lost_reason, took_ms } => {
            if origin == SessionOrigin::New {
                next.facts.push(Fact::Spent(Spent::NewSession));
            }
            // Who is starting has never had a session: whatever was taken up then, it is his first.
            let first =
                next.worker.state == State::Starting || (origin == SessionOrigin::New && !context_lost);
            if next.worker.state == State::Starting {
                next.worker.state = State::Idle;
            }
            // One that is to end for a restart is on its way out already: it has not started the worker again.
            if next.worker.restart != Restart::Wanted {
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
            // Not yet stopped: an earlier agent's leftovers may be what stood in the way.
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
            // The first reason stays: it is the one that the user was told.
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
    next.spend(worker);
    Ok(Step { worker: next.worker, facts: next.facts, actions: next.actions })
}

/// The value that is being built.
pub(super) struct Next {
    pub(super) worker: Worker,
    pub(super) facts: Vec<Fact>,
    pub(super) actions: Vec<Action>,
}

impl Next {
    pub(super) fn event(&mut self, event_type: EventType, data: Value, turn: Option<u64>) {
        self.facts.push(Fact::Event { event_type, data, turn });
    }

    fn send(&mut self, turn_id: TurnId, message: Value, input: &Value, by: By) -> Result<()> {
        let state = self.worker.public_state();
        match self.worker.state {
            State::Idle | State::Error => {}
            State::Stopping(_) | State::Stopped => return Err(stopped_for_good(state)),
            State::Starting | State::Turn(_) | State::Local(_) => {
                let error = match self.asks() {
                    Some((request_id, kind)) => {
                        let what = match kind {
                            QuestionKind::Permission => "the worker asks for a permission",
                            QuestionKind::Elicitation => "the worker asks a question (see `subagent answer`)",
                        };
                        Error::new(Code::WorkerBusy, format!("{what}; answer it, or cancel the turn"))
                            .with("pendingRequestId", request_id.as_str())
                    }
                    None => Error::new(
                        Code::WorkerBusy,
                        format!("the worker is {state}; wait for the end of its turn, or cancel it"),
                    ),
                };
                return Err(error.with("state", state.as_str()));
            }
        }
        let no = self.worker.last_turn + 1;
        self.worker.last_turn = no;
        self.worker.known_turn = no;
        let carrier = match by {
            By::Runtime => Carrier::Runtime,
            By::Local | By::LocalAsking { .. } => Carrier::Local,
        };
        self.facts.push(Fact::TurnOpened { no, id: turn_id.clone(), carrier });
        self.event(EventType::TurnStarted, json!({"turnId": turn_id, "input": input}), Some(no));
        self.event(EventType::MessageSent, message, Some(no));
        match by {
            By::Runtime => self.give_to_runtime(no, turn_id),
            By::Local => self.play(no, &turn_id),
            By::LocalAsking { request_id } => self.ask_locally(no, turn_id, request_id),
        }
        Ok(())
    }

    /// The question that somebody has to answer before anything goes on.
    fn asks(&self) -> Option<(&RequestId, QuestionKind)> {
        if let State::Local(local) = &self.worker.state {
            return Some((&local.request_id, QuestionKind::Permission));
        }
        let mut open = self.worker.approvals.iter();
        open.find(|(_, asked)| asked.approval == Approval::Pending)
            .map(|(request_id, asked)| (request_id, asked.kind))
    }

    fn give_to_runtime(&mut self, no: u64, id: TurnId) {
        self.worker.state = State::Turn(Turn { no, id, dispatching: false, retried: false, cancel: None });
        match self.worker.link {
            Link::None => {
                self.worker.link = Link::Starting;
                self.actions.push(Action::StartRuntime);
            }
            Link::Ready => self.actions.push(Action::Prompt { turn: no }),
            // Its hello, its session, or the end of the old runtime comes first.
            Link::Adopted | Link::Starting | Link::Ending => {}
        }
    }

    fn decide(&mut self, request_id: RequestId, choice: Choice, note: Option<String>) -> Result<()> {
        if let State::Local(local) = &self.worker.state
            && local.request_id == request_id
        {
            let local = local.clone();
            self.decide_local(&local, &choice, note);
            return Ok(());
        }
        let turn = self.take_decision(&request_id, QuestionKind::Permission, choice.option_id.as_deref())?;
        let shown = choice.option_id.as_deref().unwrap_or("cancelled");
        self.decided_event(&request_id, &choice.decision, shown, choice.alias.as_deref(), note, turn);
        self.facts.push(Fact::ApprovalDecided {
            request_id: request_id.clone(),
            option_id: choice.option_id.clone(),
            content: None,
            by_cancel: false,
        });
        self.actions.push(Action::Answer { request_id, option_id: choice.option_id });
        Ok(())
    }

    /// Notes a decision about a question that nobody has decided, and says of which turn it is.
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

    pub(super) fn decided_event(
        &mut self,
        request_id: &RequestId,
        decision: &str,
        option_id: &str,
        alias: Option<&str>,
        note: Option<String>,
        turn: Option<u64>,
    ) {
        let data = json!({
            "requestId": request_id, "decision": decision, "optionId": option_id, "alias": alias, "note": note,
        });
        self.event(EventType::ApprovalDecided, data, turn);
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
        self.facts.push(Fact::DesiredStop);
        match self.worker.link {
            // What an earlier runtime may have left is the guard's: `NothingLeft` follows.
            Link::None => self.close_turn(None),
            Link::Adopted | Link::Starting | Link::Ready | Link::Ending => {
                self.actions.push(Action::Terminate);
            }
        }
    }

    /// A stop of what is over anyway.
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
            State::Starting => self.worker.state = State::Error,
            State::Turn(Turn { dispatching: true, .. }) => {
                self.close_turn(Some(TurnEnd::Failed { error }));
            }
            State::Turn(_) => {
                self.close_turn(Some(TurnEnd::Failed { error: error.with("dispatched", "no") }));
            }
            State::Stopping(_) => self.close_turn(None),
            State::Idle | State::Local(_) | State::Error | State::Stopped => {}
        }
    }

    fn prompt_refused(&mut self, turn: u64, error: Option<Error>) {
        if !self.worker.turn().is_some_and(|open| open.no == turn && !open.dispatching) {
            // The turn is over, or the journal says that the prompt was taken: the refusal is of a repetition.
            return;
        }
        match error {
            // Another link than a ready one is newer than the refusal: there is nobody to wait for the end of, or
            // the session will bring the prompt.
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

    /// Ends the open turn, if there is one: as the runtime saw it, or (`None`) because it never got that far.
    pub(super) fn close_turn(&mut self, end: Option<TurnEnd>) {
        if let Some(no) = self.worker.turn().map(|turn| turn.no) {
            // The runtime closes them before it ends a turn; what is left here would stay open for ever. What was asked
            // outside of the turn goes on.
            let closed = ApprovalInput::Closed(ApprovalClosedReason::TurnEnded);
            self.end_approvals(&closed, |asked| asked.turn == Some(no));
        }
        let turn = match &mut self.worker.state {
            State::Turn(turn) => {
                let turn = turn.clone();
                self.worker.state = State::Idle;
                turn
            }
            State::Stopping(open) => match open.take() {
                Some(turn) => turn,
                None => return,
            },
            State::Starting | State::Idle | State::Local(_) | State::Error | State::Stopped => return,
        };
        self.spend_turn(&turn, end.as_ref());
        // A cancel that the runtime did not journal counts only where the runtime had no say in the end.
        let own = !turn.dispatching || end.is_none() || lost(end.as_ref());
        let canceled = turn.cancel.as_ref().filter(|cancel| cancel.requested || own);
        let (status, event_type, data) = match (canceled, end) {
            (Some(cancel), _) => {
                let data = json!({"turnId": turn.id, "reason": cancel.reason});
                (TurnStatus::Canceled, EventType::TurnCanceled, data)
            }
            (None, Some(TurnEnd::Answered { stop_reason, usage, meta })) => {
                let mut data = json!({"turnId": turn.id, "outcome": "completed", "state": "idle"});
                if let Some(stop_reason) = stop_reason {
                    data["stopReason"] = stop_reason.into();
                }
                if let Some(usage) = fields::usage_of_turn(usage.as_ref(), meta.as_ref()) {
                    data["usage"] = usage;
                }
                // Not before: what went wrong last is not lost with the next message.
                self.facts.push(Fact::LastError(None));
                (TurnStatus::Completed, EventType::TurnCompleted, data)
            }
            (None, Some(TurnEnd::Failed { error })) => {
                let data = json!({"turnId": turn.id, "error": error});
                self.facts.push(Fact::LastError(Some(error)));
                (TurnStatus::Failed, EventType::TurnFailed, data)
            }
            (None, None) => {
                let data = json!({"turnId": turn.id, "reason": STOPPED_BY_MANAGER});
                (TurnStatus::Canceled, EventType::TurnCanceled, data)
            }
        };
        let dispatched = match (turn.dispatching, &status) {
            (false, _) => Dispatched::No,
            (true, TurnStatus::Completed) => Dispatched::Yes,
            (true, _) => Dispatched::Maybe,
        };
        self.event(event_type, data, Some(turn.no));
        self.facts.push(Fact::TurnClosed { no: turn.no, status, dispatched });
    }

    fn end_approvals(&mut self, input: &ApprovalInput, which: impl Fn(&Request) -> bool) {
        let chosen = self.worker.approvals.iter().filter(|(_, asked)| which(asked));
        for request_id in chosen.map(|(request_id, _)| request_id.clone()).collect::<Vec<_>>() {
            self.end_approval(&request_id, input);
        }
    }

    fn end_approval(&mut self, request_id: &RequestId, input: &ApprovalInput) {
        // An input for a request that is over already is a repetition after a restart.
        let Some(Request { kind, turn, approval }) = self.worker.approvals.remove(request_id) else { return };
        let status = approval.end(input);
        let reason = match input {
            ApprovalInput::Closed(reason) => reason.as_str(),
            ApprovalInput::Lost => "runtime_lost",
            ApprovalInput::AnswerWritten | ApprovalInput::AnswerRefused => "unknown_to_the_agent",
        };
        let data = json!({"requestId": request_id, "reason": reason});
        if let Some(event_type) = event_of(kind, status) {
            self.event(event_type, data, turn);
        }
        self.facts.push(Fact::ApprovalClosed { request_id: request_id.clone(), status });
    }

    fn ending(&mut self, reason: Option<String>) {
        if self.worker.link != Link::None {
            self.worker.link = Link::Ending;
        }
        // The runtime ends a turn without a cancel of its own when it is told to end. Written down, because a daemon
        // that is started anew before the end of the turn must come to the same result.
        let stopping =
            matches!(self.worker.state, State::Stopping(_)) || self.worker.restart == Restart::Wanted;
        let (State::Stopping(Some(turn)) | State::Turn(turn)) = &mut self.worker.state else { return };
        let cancel = match (&turn.cancel, reason) {
            (Some(cancel), _) if cancel.requested => return,
            (Some(cancel), told) if stopping || told.is_some() => cancel.reason.clone(),
            (None, Some(reason)) if turn.dispatching => reason,
            // An agent that ended by itself: its turn failed, or was canceled before.
            _ => return,
        };
        let cancel = Cancel { reason: cancel, requested: true };
        turn.cancel = Some(cancel.clone());
        self.facts.push(Fact::TurnCancel { no: turn.no, cancel });
    }

    /// Says again what the runtime may not have heard. It takes each of these at most once.
    fn attached(&mut self, told: Link, last_turn: u64) {
        if self.attached_awake(told, last_turn) {
            return;
        }
        // It was ready when it took the turn. Until that is written, neither is that it ends: no cancel may believe
        // that nobody has the prompt.
        let unwritten = self.worker.turn().is_some_and(|turn| !turn.dispatching && turn.no <= last_turn);
        let known = if unwritten { told.min(Link::Ready) } else { told };
        // A hello may be older than what was read of the journal since; a runtime only ever gets further.
        self.worker.link = self.worker.link.max(known);
        let link = self.worker.link;
        if link == Link::Ready && self.worker.hibernation == Hibernation::Begun {
            // It is another one than the store, which was replaced by an older one, knows of.
            self.worker.hibernation = Hibernation::None;
        }
        // The runtime takes no number again, whoever used it.
        self.worker.last_turn = self.worker.last_turn.max(last_turn);
        match &self.worker.state {
            State::Stopping(_) => self.actions.push(Action::Terminate),
            // The old runtime has not heard that it is to end.
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
                    // It was not given it, and will not be.
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
        // It was to end, and nothing of it was open: nothing is lost, whatever it ended by.
        let hibernated = self.hibernates();
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
            }
            // The whole journal was read and says that the prompt was never sent, so another runtime may take it: what
            // was accepted is done once.
            State::Turn(Turn { dispatching: false, cancel: None, .. })
                if !rebooted && was == Restart::Wanted =>
            {
                // This one ended because somebody wanted it to.
                return self.begin_restart();
            }
            State::Turn(Turn { dispatching: false, cancel: None, .. }) if !rebooted && hibernated => {
                return self.start_for_waking();
            }
            State::Turn(Turn { no, dispatching: false, retried: retried @ false, cancel: None, .. })
                if !rebooted =>
            {
                // Only one more, or an agent that dies at once would never end. A restart goes on with it.
                *retried = true;
                self.facts.push(Fact::TurnRetried { no: *no });
                self.worker.link = Link::Starting;
                self.actions.push(Action::StartRuntime);
                return;
            }
            State::Turn(_) | State::Stopping(Some(_)) => self.turn_lost(rebooted),
            State::Idle | State::Local(_) if was == Restart::Begun => {
                // It was given no prompt: whoever wanted it can ask again.
                self.facts.push(Fact::LastError(Some(runtime_lost(None).retryable())));
            }
            State::Idle | State::Local(_) if !clean && !hibernated => {
                self.facts.push(Fact::LastError(Some(runtime_lost(None))));
            }
            State::Idle | State::Local(_) | State::Stopping(None) | State::Error | State::Stopped => {}
        }
        match (was, &self.worker.state) {
            (Restart::Wanted, State::Idle | State::Local(_) | State::Error) => return self.begin_restart(),
            // The new one is gone, too.
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
