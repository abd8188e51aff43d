//! Ends the agent in steps, each with a deadline, and then everything it started. The steps are
//! `session/cancel`, `session/close` if offered, end of input, SIGTERM, and the guard's SIGKILL.
//! When the agent ends, the remaining steps are skipped.

use std::time::Duration;

use subagent_protocol::error::{Code, Error};
use subagent_protocol::record::{ApprovalClosedReason, RecordType, StartFailed, Terminating, TurnEnd};

use super::shutdown;
use crate::conversation::effects::{ConversationAction, Cx, Storage, Timer};
use crate::conversation::requests::{approvals, calls};
use crate::conversation::state::{
    Attempt, CancelCause, Conversation, ConversationState, Opening, ShutdownProgress, ShutdownStep,
};
use crate::conversation::{errors, turn_end};

/// How long a full disk may last before open work is given up.
pub(in crate::conversation) const STORAGE_TIMEOUT: Duration = Duration::from_secs(30);

/// Begins an ordinary end. A second call changes nothing.
pub(in crate::conversation) fn begin_end(conversation: &mut Conversation, reason: &str, cx: &mut Cx<'_>) {
    if conversation.is_ending() {
        return;
    }
    if conversation.storage == Storage::Full {
        calls::shed(conversation, cx);
    }
    cx.record(RecordType::Terminating, None, &Terminating { reason: reason.to_owned() });
    shutdown::begin(conversation, ShutdownStep::Canceling, reason, cx);
    if let Some(turn) = conversation.turn_mut() {
        if turn.cancel.replace(turn.cancel.unwrap_or(CancelCause::Stopping)).is_none() {
            approvals::cancel_at_agent(conversation, ApprovalClosedReason::Stopped, cx);
        }
        // Requests outside any turn; a cancel has answered all others.
        approvals::cancel_all(conversation, ApprovalClosedReason::Stopped, cx);
        cx.set_timer(Timer::StopGrace, conversation.config.timeouts.stop_grace_ms);
        turn_end::give_up_prompt(conversation, errors::never_sent(), cx);
    } else {
        approvals::cancel_all(conversation, ApprovalClosedReason::Stopped, cx);
        shutdown::turn_is_over(conversation, cx);
    }
}

/// Ends an agent that does not react, without the polite steps. The turn has ended already.
pub(in crate::conversation) fn end_unresponsive(
    conversation: &mut Conversation,
    reason: &str,
    cx: &mut Cx<'_>,
) {
    if conversation.is_ending() {
        return;
    }
    cx.record(RecordType::Terminating, None, &Terminating { reason: reason.to_owned() });
    approvals::cancel_all(conversation, ApprovalClosedReason::Stopped, cx);
    shutdown::begin(conversation, ShutdownStep::InputClosed, reason, cx);
    cx.push(ConversationAction::CloseInput);
    cx.set_timer(Timer::StopGrace, conversation.config.timeouts.stop_grace_ms);
}

/// Ends an agent whose start failed. Closes its session first, if there is one.
fn end_agent_now(conversation: &mut Conversation, cx: &mut Cx<'_>) {
    approvals::cancel_all(conversation, ApprovalClosedReason::Stopped, cx);
    shutdown::begin(conversation, ShutdownStep::Canceling, "the agent could not be started", cx);
    if matches!(&conversation.state, ConversationState::Ending(ShutdownProgress { session: Some(session), .. }) if session.can_close)
    {
        return shutdown::turn_is_over(conversation, cx);
    }
    shutdown::set_step(conversation, ShutdownStep::Terminated);
    cx.push(ConversationAction::CloseInput);
    cx.push(ConversationAction::Terminate);
    cx.set_timer(Timer::StopGrace, conversation.config.timeouts.stop_grace_ms);
}

/// The agent did not end within this step: takes the next one.
pub(in crate::conversation) fn stop_grace_over(conversation: &mut Conversation, cx: &mut Cx<'_>) {
    let ConversationState::Ending(ending) = &conversation.state else { return };
    match ending.step {
        ShutdownStep::Canceling => {
            let error = errors::stopped(&ending.reason);
            turn_end::end_turn(conversation, &TurnEnd::Failed { error }, cx);
            // It ignored the cancel and would ignore a close too.
            shutdown::close_input(conversation, cx);
        }
        ShutdownStep::Closing { .. } => shutdown::close_input(conversation, cx),
        ShutdownStep::InputClosed => {
            shutdown::set_step(conversation, ShutdownStep::Terminated);
            cx.push(ConversationAction::Terminate);
            cx.set_timer(Timer::StopGrace, conversation.config.timeouts.stop_grace_ms);
        }
        ShutdownStep::Terminated => {
            shutdown::set_step(conversation, ShutdownStep::Killing);
            cx.push(ConversationAction::EndTree);
        }
        // From here on, only the guard can report the end.
        ShutdownStep::Killing | ShutdownStep::Exited => {}
    }
}

/// Handles every start that fails while the agent runs: records the error and ends the agent.
pub(in crate::conversation) fn fail_start(conversation: &mut Conversation, error: Error, cx: &mut Cx<'_>) {
    record_start_failure(conversation, error, cx);
    end_agent_now(conversation, cx);
}

pub(in crate::conversation) fn record_start_failure(
    conversation: &mut Conversation,
    error: Error,
    cx: &mut Cx<'_>,
) {
    cx.clear_timer(Timer::Startup);
    cx.clear_timer(Timer::Phase);
    // A start that was called off has not failed.
    if conversation.is_starting() {
        let error = match &conversation.state {
            // The next runtime must know that this one was restoring the session. A full
            // disk says nothing about that.
            ConversationState::Opening(Opening {
                attempt: attempt @ (Attempt::Resume | Attempt::Load),
                ..
            }) if error.code != Code::StorageFull => error.with("phase", attempt.method()),
            _ => error,
        };
        let error = errors::at_start(error, &conversation.config.command, &cx.tail.text());
        cx.record(RecordType::StartFailed, None, &StartFailed { error: error.clone() });
        conversation.failed = Some(error);
    }
}

pub(in crate::conversation) fn storage_changed(
    conversation: &mut Conversation,
    storage: Storage,
    cx: &mut Cx<'_>,
) {
    conversation.storage = storage;
    match storage {
        Storage::Full => cx.set_timer_to(Timer::StorageFull, STORAGE_TIMEOUT),
        Storage::Ok => cx.clear_timer(Timer::StorageFull),
    }
}

pub(in crate::conversation) fn storage_patience_over(conversation: &mut Conversation, cx: &mut Cx<'_>) {
    if conversation.storage == Storage::Ok {
        return;
    }
    if conversation.is_ending() {
        return storage_full_at_end(conversation, cx);
    }
    if conversation.turn().is_none() && !conversation.is_starting() {
        // Waiting longer loses nothing.
        return;
    }
    let dropped = calls::shed(conversation, cx);
    let error = errors::storage_full(dropped);
    if conversation.is_starting() {
        return fail_start(conversation, error, cx);
    }
    turn_end::end_turn(conversation, &TurnEnd::Failed { error: errors::dispatched(error) }, cx);
    end_unresponsive(conversation, "storage full", cx);
}

/// The end cannot be recorded: drops progress records first, then the journal.
fn storage_full_at_end(conversation: &mut Conversation, cx: &mut Cx<'_>) {
    calls::shed(conversation, cx);
    let abandon = match &mut conversation.state {
        ConversationState::Ending(ending) => std::mem::replace(&mut ending.shed, true),
        _ => true,
    };
    if abandon {
        cx.push(ConversationAction::AbandonJournal);
    } else {
        cx.set_timer_to(Timer::StorageFull, STORAGE_TIMEOUT);
    }
}
