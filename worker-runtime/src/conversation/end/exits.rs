//! The end of the agent's process, before or after it was asked for.

use subagent_protocol::record::{self, EndedRecord, RecordType, TurnEnd};

use super::{ending, shutdown};
use crate::conversation::effects::{ConversationAction, Cx, Exit, Timer};
use crate::conversation::requests::{approvals, calls};
use crate::conversation::state::{Conversation, ConversationState, ShutdownProgress, ShutdownStep};
use crate::conversation::{errors, turn_end};

/// The agent could not be started.
pub(in crate::conversation) fn spawn_failed(
    conversation: &mut Conversation,
    errno: i32,
    message: &str,
    cx: &mut Cx<'_>,
) {
    let error = errors::spawn_failed(&conversation.config.command, errno, message);
    ending::record_start_failure(conversation, error, cx);
    tree_ended(conversation, 0, 0, cx);
}

/// The agent closed one of its pipes, but still runs.
pub(in crate::conversation) fn pipe_closed(conversation: &mut Conversation, cx: &mut Cx<'_>) {
    let tail = cx.tail.text();
    if conversation.is_starting() {
        return ending::fail_start(conversation, errors::pipe_closed_at_start(), cx);
    }
    if matches!(conversation.state, ConversationState::Ready { .. }) {
        turn_end::end_turn(conversation, &TurnEnd::Failed { error: errors::pipe_closed_in_turn(&tail) }, cx);
        return ending::end_unresponsive(conversation, "the agent closed its standard input or output", cx);
    }
    // Expected while ending, but no response can arrive any more.
    if let ConversationState::Ending(ShutdownProgress {
        step: ShutdownStep::Canceling | ShutdownStep::Closing { .. },
        ..
    }) = conversation.state
    {
        cx.clear_timer(Timer::StopGrace);
        ending::stop_grace_over(conversation, cx);
    }
}

pub(in crate::conversation) fn agent_exited(conversation: &mut Conversation, exit: Exit, cx: &mut Cx<'_>) {
    let tail = cx.tail.text();
    let body = record::AgentExited { code: exit.code, signal: exit.signal, stderr_tail: tail.clone() };
    cx.record(RecordType::AgentExited, None, &body);
    approvals::forget_all(conversation, cx);
    let error = match &conversation.state {
        ConversationState::Ending(ending) => errors::stopped(&ending.reason),
        _ => errors::exited_in_turn(exit, &tail),
    };
    turn_end::end_turn(conversation, &TurnEnd::Failed { error }, cx);
    if conversation.is_starting() {
        exited_at_start(conversation, exit, cx);
    }
    if matches!(conversation.state, ConversationState::Ended) {
        return;
    }
    cx.clear_timer(Timer::StopGrace);
    let reason = match &conversation.state {
        ConversationState::Ending(ending) => ending.reason.clone(),
        _ => "the agent ended".to_owned(),
    };
    shutdown::begin(conversation, ShutdownStep::Exited, &reason, cx);
}

fn exited_at_start(conversation: &mut Conversation, exit: Exit, cx: &mut Cx<'_>) {
    let error = errors::exited_at_start(&conversation.config.command, exit);
    ending::record_start_failure(conversation, error, cx);
}

/// The proof that no process is left: the last record.
pub(in crate::conversation) fn tree_ended(
    conversation: &mut Conversation,
    killed: u64,
    millis: u64,
    cx: &mut Cx<'_>,
) {
    if matches!(conversation.state, ConversationState::Ended) {
        return;
    }
    cx.clear_timer(Timer::Startup);
    cx.clear_timer(Timer::Phase);
    cx.clear_timer(Timer::StopGrace);
    // The driver reports the agent's exit first. If that failed, no turn may stay open.
    approvals::forget_all(conversation, cx);
    calls::end_all(conversation, cx);
    turn_end::end_turn(
        conversation,
        &TurnEnd::Failed { error: errors::exited_in_turn(Exit::default(), &cx.tail.text()) },
        cx,
    );
    cx.record(RecordType::Ended, None, &EndedRecord { killed, millis });
    conversation.state = ConversationState::Ended;
    cx.push(ConversationAction::Exit);
}
