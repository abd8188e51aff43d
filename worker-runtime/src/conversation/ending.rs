//! Ends the agent in steps, each with a deadline, and then everything it started. The steps are
//! `session/cancel`, `session/close` if offered, end of input, SIGTERM, and the guard's SIGKILL.
//! When the agent ends, the remaining steps are skipped.

use subagent_protocol::record::{self, ApprovalClosedReason, EndedRecord, RecordType, Terminating, TurnEnd};

use super::handshake::Opened;
use super::turn::{CancelCause, OpenTurn};
use super::{AgentSession, Conversation, ConversationAction, ConversationState, Cx, Exit, Timer, errors};
use crate::acp::outgoing::OutgoingKind;
use crate::acp::requests;

/// The progress of an end.
pub(super) struct ShutdownProgress {
    step: ShutdownStep,
    reason: String,
    pub(super) session: Option<AgentSession>,
    pub(super) turn: Option<OpenTurn>,
    /// Whether progress records were dropped to get the end written.
    shed: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ShutdownStep {
    /// The agent was asked to cancel its turn.
    Canceling,
    /// The agent was asked to close its session.
    Closing { rpc: u64 },
    /// The agent's input is closed.
    InputClosed,
    /// The agent's group got SIGTERM.
    Terminated,
    /// The guard is ending the tree.
    Killing,
    /// The agent has ended; the guard ends remaining processes.
    Exited,
}

impl Conversation {
    /// Begins an ordinary end. A second call changes nothing.
    pub(super) fn begin_end(&mut self, reason: &str, cx: &mut Cx<'_>) {
        if self.is_ending() {
            return;
        }
        if self.storage == super::Storage::Full {
            self.shed(cx);
        }
        cx.record(RecordType::Terminating, None, &Terminating { reason: reason.to_owned() });
        self.enter_ending(ShutdownStep::Canceling, reason, cx);
        if let Some(turn) = self.turn_mut() {
            if turn.cancel.replace(turn.cancel.unwrap_or(CancelCause::Stopping)).is_none() {
                self.cancel_at_agent(ApprovalClosedReason::Stopped, cx);
            }
            // Requests outside any turn; a cancel has answered all others.
            self.cancel_approvals(ApprovalClosedReason::Stopped, cx);
            cx.set_timer(Timer::StopGrace, self.config.timeouts.stop_grace_ms);
            self.give_up_prompt(errors::never_sent(), cx);
        } else {
            self.cancel_approvals(ApprovalClosedReason::Stopped, cx);
            self.turn_is_over(cx);
        }
    }

    /// Ends an agent that does not react, without the polite steps. The turn has ended already.
    pub(super) fn end_unresponsive(&mut self, reason: &str, cx: &mut Cx<'_>) {
        if self.is_ending() {
            return;
        }
        cx.record(RecordType::Terminating, None, &Terminating { reason: reason.to_owned() });
        self.cancel_approvals(ApprovalClosedReason::Stopped, cx);
        self.enter_ending(ShutdownStep::InputClosed, reason, cx);
        cx.push(ConversationAction::CloseInput);
        cx.set_timer(Timer::StopGrace, self.config.timeouts.stop_grace_ms);
    }

    /// Ends an agent whose start failed. Closes its session first, if there is one.
    pub(super) fn end_agent_now(&mut self, cx: &mut Cx<'_>) {
        self.cancel_approvals(ApprovalClosedReason::Stopped, cx);
        self.enter_ending(ShutdownStep::Canceling, "the agent could not be started", cx);
        if matches!(&self.state, ConversationState::Ending(ShutdownProgress { session: Some(session), .. }) if session.can_close)
        {
            return self.turn_is_over(cx);
        }
        self.set_step(ShutdownStep::Terminated);
        cx.push(ConversationAction::CloseInput);
        cx.push(ConversationAction::Terminate);
        cx.set_timer(Timer::StopGrace, self.config.timeouts.stop_grace_ms);
    }

    fn enter_ending(&mut self, step: ShutdownStep, reason: &str, cx: &mut Cx<'_>) {
        self.end_calls(cx);
        cx.clear_timer(Timer::Startup);
        cx.clear_timer(Timer::Phase);
        cx.clear_timer(Timer::Turn);
        cx.clear_timer(Timer::CancelGrace);
        self.drop_settings(cx);
        let can_close = self.agent.as_ref().is_some_and(|agent| agent.capabilities.close);
        let (session, turn) = match std::mem::replace(&mut self.state, ConversationState::Ended) {
            ConversationState::Ready { session, turn } => (Some(session), turn),
            // The session exists, but is not ready yet.
            ConversationState::Replaying { id, .. } | ConversationState::Applying(Opened { id, .. }) => {
                (Some(AgentSession { id, can_close }), None)
            }
            ConversationState::Ending(ending) => (ending.session, ending.turn),
            _ => (None, None),
        };
        self.state = ConversationState::Ending(ShutdownProgress {
            step,
            reason: reason.to_owned(),
            session,
            turn,
            shed: false,
        });
    }

    /// A turn has ended. Continues an end that waited for it.
    pub(super) fn turn_is_over(&mut self, cx: &mut Cx<'_>) {
        let rpc = self.next_rpc + 1;
        let ConversationState::Ending(ending) = &mut self.state else { return };
        if ending.step != ShutdownStep::Canceling {
            return;
        }
        match &ending.session {
            Some(session) if session.can_close => {
                ending.step = ShutdownStep::Closing { rpc };
                cx.send(OutgoingKind::Plain, requests::close_session(rpc, &session.id));
                self.next_rpc = rpc;
                cx.set_timer(Timer::StopGrace, self.config.timeouts.stop_grace_ms);
            }
            _ => self.close_input(cx),
        }
    }

    pub(super) fn awaits_close(&self) -> Option<u64> {
        match &self.state {
            ConversationState::Ending(ShutdownProgress { step: ShutdownStep::Closing { rpc }, .. }) => {
                Some(*rpc)
            }
            _ => None,
        }
    }

    /// The agent answered `session/close`; the content does not matter.
    pub(super) fn session_closed(&mut self, cx: &mut Cx<'_>) {
        self.close_input(cx);
    }

    fn close_input(&mut self, cx: &mut Cx<'_>) {
        self.set_step(ShutdownStep::InputClosed);
        cx.push(ConversationAction::CloseInput);
        cx.set_timer(Timer::StopGrace, self.config.timeouts.stop_grace_ms);
    }

    fn set_step(&mut self, step: ShutdownStep) {
        if let ConversationState::Ending(ending) = &mut self.state {
            ending.step = step;
        }
    }

    /// The agent did not end within this step: takes the next one.
    pub(super) fn stop_grace_over(&mut self, cx: &mut Cx<'_>) {
        let ConversationState::Ending(ending) = &self.state else { return };
        match ending.step {
            ShutdownStep::Canceling => {
                let error = errors::stopped(&ending.reason);
                self.end_turn(&TurnEnd::Failed { error }, cx);
                // It ignored the cancel and would ignore a close too.
                self.close_input(cx);
            }
            ShutdownStep::Closing { .. } => self.close_input(cx),
            ShutdownStep::InputClosed => {
                self.set_step(ShutdownStep::Terminated);
                cx.push(ConversationAction::Terminate);
                cx.set_timer(Timer::StopGrace, self.config.timeouts.stop_grace_ms);
            }
            ShutdownStep::Terminated => {
                self.set_step(ShutdownStep::Killing);
                cx.push(ConversationAction::EndTree);
            }
            // From here on, only the guard can report the end.
            ShutdownStep::Killing | ShutdownStep::Exited => {}
        }
    }

    /// The agent closed one of its pipes, but still runs.
    pub(super) fn pipe_closed(&mut self, cx: &mut Cx<'_>) {
        let tail = cx.tail.text();
        if self.is_starting() {
            return self.fail_start(errors::pipe_closed_at_start(), cx);
        }
        if matches!(self.state, ConversationState::Ready { .. }) {
            self.end_turn(&TurnEnd::Failed { error: errors::pipe_closed_in_turn(&tail) }, cx);
            return self.end_unresponsive("the agent closed its standard input or output", cx);
        }
        // Expected while ending, but no response can arrive any more.
        if let ConversationState::Ending(ShutdownProgress {
            step: ShutdownStep::Canceling | ShutdownStep::Closing { .. },
            ..
        }) = self.state
        {
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
            ConversationState::Ending(ending) => errors::stopped(&ending.reason),
            _ => errors::exited_in_turn(exit, &tail),
        };
        self.end_turn(&TurnEnd::Failed { error }, cx);
        if self.is_starting() {
            self.exited_at_start(exit, cx);
        }
        if matches!(self.state, ConversationState::Ended) {
            return;
        }
        cx.clear_timer(Timer::StopGrace);
        let reason = match &self.state {
            ConversationState::Ending(ending) => ending.reason.clone(),
            _ => "the agent ended".to_owned(),
        };
        self.enter_ending(ShutdownStep::Exited, &reason, cx);
    }

    /// The proof that no process is left: the last record.
    pub(super) fn tree_ended(&mut self, killed: u64, millis: u64, cx: &mut Cx<'_>) {
        if matches!(self.state, ConversationState::Ended) {
            return;
        }
        cx.clear_timer(Timer::Startup);
        cx.clear_timer(Timer::Phase);
        cx.clear_timer(Timer::StopGrace);
        // The driver reports the agent's exit first. If that failed, no turn may stay open.
        self.forget_approvals(cx);
        self.end_calls(cx);
        self.end_turn(
            &TurnEnd::Failed { error: errors::exited_in_turn(Exit::default(), &cx.tail.text()) },
            cx,
        );
        cx.record(RecordType::Ended, None, &EndedRecord { killed, millis });
        self.state = ConversationState::Ended;
        cx.push(ConversationAction::Exit);
    }

    /// The end cannot be recorded: drops progress records first, then the journal.
    pub(super) fn storage_full_at_end(&mut self, cx: &mut Cx<'_>) {
        self.shed(cx);
        let abandon = match &mut self.state {
            ConversationState::Ending(ending) => std::mem::replace(&mut ending.shed, true),
            _ => true,
        };
        if abandon {
            cx.push(ConversationAction::AbandonJournal);
        } else {
            cx.set_timer_to(Timer::StorageFull, super::STORAGE_TIMEOUT);
        }
    }
}
