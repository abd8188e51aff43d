//! The end: of the agent, in polite steps that each have a deadline, and of everything that it started.
//!
//! `session/cancel`, `session/close` where offered, end of input, SIGTERM, and the guard's SIGKILL. Whatever step the
//! agent ends in, the rest is skipped.

use subagent_protocol::record::{self, ApprovalClosedReason, Ended, RecordType, Terminating, TurnEnd};

use super::handshake::Opened;
use super::turn::{CancelCause, OpenTurn};
use super::{Action, Conversation, Cx, Exit, Session, State, Timer, errors};
use crate::acp::outgoing::Kind;
use crate::acp::requests;

/// How far the end is.
pub(super) struct Ending {
    step: Step,
    reason: String,
    pub(super) session: Option<Session>,
    pub(super) turn: Option<OpenTurn>,
    /// Progress was dropped once to get the end written.
    shed: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// The agent was told to cancel its turn.
    Canceling,
    /// The agent was told to close its session.
    Closing { rpc: u64 },
    /// Its input is closed.
    InputClosed,
    /// SIGTERM was sent.
    Terminated,
    /// The guard was told to end the tree.
    Killing,
    /// The agent has ended; the guard ends what it left.
    Exited,
}

impl Conversation {
    /// An ordinary end, for this reason. A second one changes nothing.
    pub(super) fn begin_end(&mut self, reason: &str, cx: &mut Cx<'_>) {
        if self.is_ending() {
            return;
        }
        if self.storage == super::Storage::Full {
            self.shed(cx);
        }
        cx.record(RecordType::Terminating, None, &Terminating { reason: reason.to_owned() });
        self.enter_ending(Step::Canceling, reason, cx);
        if let Some(turn) = self.turn_mut() {
            if turn.cancel.replace(turn.cancel.unwrap_or(CancelCause::Stopping)).is_none() {
                self.cancel_at_agent(ApprovalClosedReason::Stopped, cx);
            }
            // Those that belong to no turn; a cancel has answered all others.
            self.cancel_approvals(ApprovalClosedReason::Stopped, cx);
            cx.set_timer(Timer::StopGrace, self.config.timeouts.stop_grace_ms);
            self.give_up_prompt(errors::never_sent(), cx);
        } else {
            self.cancel_approvals(ApprovalClosedReason::Stopped, cx);
            self.turn_is_over(cx);
        }
    }

    /// The end of an agent that does not listen: the polite words are left out. The turn is ended already.
    pub(super) fn end_unresponsive(&mut self, reason: &str, cx: &mut Cx<'_>) {
        if self.is_ending() {
            return;
        }
        cx.record(RecordType::Terminating, None, &Terminating { reason: reason.to_owned() });
        self.cancel_approvals(ApprovalClosedReason::Stopped, cx);
        self.enter_ending(Step::InputClosed, reason, cx);
        cx.push(Action::CloseInput);
        cx.set_timer(Timer::StopGrace, self.config.timeouts.stop_grace_ms);
    }

    /// The end of an agent whose start has failed. A session that it has made by then is closed first.
    pub(super) fn end_agent_now(&mut self, cx: &mut Cx<'_>) {
        self.cancel_approvals(ApprovalClosedReason::Stopped, cx);
        self.enter_ending(Step::Canceling, "the agent could not be started", cx);
        if matches!(&self.state, State::Ending(Ending { session: Some(session), .. }) if session.can_close) {
            return self.turn_is_over(cx);
        }
        self.set_step(Step::Terminated);
        cx.push(Action::CloseInput);
        cx.push(Action::Terminate);
        cx.set_timer(Timer::StopGrace, self.config.timeouts.stop_grace_ms);
    }

    fn enter_ending(&mut self, step: Step, reason: &str, cx: &mut Cx<'_>) {
        self.end_calls(cx);
        cx.clear_timer(Timer::Startup);
        cx.clear_timer(Timer::Phase);
        cx.clear_timer(Timer::Turn);
        cx.clear_timer(Timer::CancelGrace);
        self.drop_settings(cx);
        let can_close = self.agent.as_ref().is_some_and(|agent| agent.capabilities.close);
        let (session, turn) = match std::mem::replace(&mut self.state, State::Ended) {
            State::Ready { session, turn } => (Some(session), turn),
            // It is there, only not ready.
            State::Replaying { id, .. } | State::Applying(Opened { id, .. }) => {
                (Some(Session { id, can_close }), None)
            }
            State::Ending(ending) => (ending.session, ending.turn),
            _ => (None, None),
        };
        self.state = State::Ending(Ending { step, reason: reason.to_owned(), session, turn, shed: false });
    }

    /// After the end of a turn, if it was the end of everything that was waited for.
    pub(super) fn turn_is_over(&mut self, cx: &mut Cx<'_>) {
        let rpc = self.next_rpc + 1;
        let State::Ending(ending) = &mut self.state else { return };
        if ending.step != Step::Canceling {
            return;
        }
        match &ending.session {
            Some(session) if session.can_close => {
                ending.step = Step::Closing { rpc };
                cx.send(Kind::Plain, requests::close_session(rpc, &session.id));
                self.next_rpc = rpc;
                cx.set_timer(Timer::StopGrace, self.config.timeouts.stop_grace_ms);
            }
            _ => self.close_input(cx),
        }
    }

    pub(super) fn awaits_close(&self) -> Option<u64> {
        match &self.state {
            State::Ending(Ending { step: Step::Closing { rpc }, .. }) => Some(*rpc),
            _ => None,
        }
    }

    /// The agent answered `session/close`; with what does not matter.
    pub(super) fn session_closed(&mut self, cx: &mut Cx<'_>) {
        self.close_input(cx);
    }

    fn close_input(&mut self, cx: &mut Cx<'_>) {
        self.set_step(Step::InputClosed);
        cx.push(Action::CloseInput);
        cx.set_timer(Timer::StopGrace, self.config.timeouts.stop_grace_ms);
    }

    fn set_step(&mut self, step: Step) {
        if let State::Ending(ending) = &mut self.state {
            ending.step = step;
        }
    }

    /// The agent did not end in this step: the next one.
    pub(super) fn stop_grace_over(&mut self, cx: &mut Cx<'_>) {
        let State::Ending(ending) = &self.state else { return };
        match ending.step {
            Step::Canceling => {
                let error = errors::stopped(&ending.reason);
                self.end_turn(&TurnEnd::Failed { error }, cx);
                // It did not listen to a cancel: it would not listen to a close either.
                self.close_input(cx);
            }
            Step::Closing { .. } => self.close_input(cx),
            Step::InputClosed => {
                self.set_step(Step::Terminated);
                cx.push(Action::Terminate);
                cx.set_timer(Timer::StopGrace, self.config.timeouts.stop_grace_ms);
            }
            Step::Terminated => {
                self.set_step(Step::Killing);
                cx.push(Action::EndTree);
            }
            // From here on only the guard can tell.
            Step::Killing | Step::Exited => {}
        }
    }

    /// The agent closed a pipe of its own and is still there.
    pub(super) fn pipe_closed(&mut self, cx: &mut Cx<'_>) {
        let tail = cx.tail.text();
        if self.is_starting() {
            return self.fail_start(errors::pipe_closed_at_start(), cx);
        }
        if matches!(self.state, State::Ready { .. }) {
            self.end_turn(&TurnEnd::Failed { error: errors::pipe_closed_in_turn(&tail) }, cx);
            return self.end_unresponsive("the agent closed its standard input or output", cx);
        }
        // While it ends that is what was asked for; only nothing can be waited for any more.
        if let State::Ending(Ending { step: Step::Canceling | Step::Closing { .. }, .. }) = self.state {
            cx.clear_timer(Timer::StopGrace);
            self.stop_grace_over(cx);
        }
    }

    pub(super) fn agent_exited(&mut self, exit: Exit, cx: &mut Cx<'_>) {
        let tail = cx.tail.text();
        let body = record::AgentExited { code: exit.code, signal: exit.signal, stderr_tail: tail.clone() };
        cx.record(RecordType::AgentExited, None, &body);
        self.forget_approvals(cx);
        let error = match &self.state {
            State::Ending(ending) => errors::stopped(&ending.reason),
            _ => errors::exited_in_turn(exit, &tail),
        };
        self.end_turn(&TurnEnd::Failed { error }, cx);
        if self.is_starting() {
            self.exited_at_start(exit, cx);
        }
        if matches!(self.state, State::Ended) {
            return;
        }
        cx.clear_timer(Timer::StopGrace);
        let reason = match &self.state {
            State::Ending(ending) => ending.reason.clone(),
            _ => "the agent ended".to_owned(),
        };
        self.enter_ending(Step::Exited, &reason, cx);
    }

    /// The proof that nothing is left: the last record.
    pub(super) fn tree_ended(&mut self, killed: u64, millis: u64, cx: &mut Cx<'_>) {
        if matches!(self.state, State::Ended) {
            return;
        }
        cx.clear_timer(Timer::Startup);
        cx.clear_timer(Timer::Phase);
        cx.clear_timer(Timer::StopGrace);
        // The driver hands the agent's exit in before; if it could not be learnt, no turn may stay open.
        self.forget_approvals(cx);
        self.end_calls(cx);
        self.end_turn(
            &TurnEnd::Failed { error: errors::exited_in_turn(Exit::default(), &cx.tail.text()) },
            cx,
        );
        cx.record(RecordType::Ended, None, &Ended { killed, millis });
        self.state = State::Ended;
        cx.push(Action::Exit);
    }

    /// The end cannot be written down: first progress is given up, then the journal.
    pub(super) fn storage_full_at_end(&mut self, cx: &mut Cx<'_>) {
        self.shed(cx);
        let abandon = match &mut self.state {
            State::Ending(ending) => std::mem::replace(&mut ending.shed, true),
            _ => true,
        };
        if abandon {
            cx.push(Action::AbandonJournal);
        } else {
            cx.set_timer_to(Timer::StorageFull, super::STORAGE_PATIENCE);
        }
    }
}
