//! The steps of an end that wait for the agent.

use crate::acp::outgoing::OutgoingKind;
use crate::acp::requests;
use crate::conversation::effects::{ConversationAction, Cx, Timer};
use crate::conversation::requests::calls;
use crate::conversation::state::{
    AgentSession, Conversation, ConversationState, Opened, ShutdownProgress, ShutdownStep,
};

/// Ends everything open besides the turn. The state has the turn and the session until the end.
pub(in crate::conversation) fn begin(
    conversation: &mut Conversation,
    step: ShutdownStep,
    reason: &str,
    cx: &mut Cx<'_>,
) {
    calls::end_all(conversation, cx);
    cx.clear_timer(Timer::Startup);
    cx.clear_timer(Timer::Phase);
    cx.clear_timer(Timer::Turn);
    cx.clear_timer(Timer::CancelGrace);
    conversation.settings.drop_all(cx);
    let can_close = conversation.agent.as_ref().is_some_and(|agent| agent.capabilities.close);
    let (session, turn) = match std::mem::replace(&mut conversation.state, ConversationState::Ended) {
        ConversationState::Ready { session, turn } => (Some(session), turn),
        // The session exists, but is not ready yet.
        ConversationState::Replaying { id, .. } | ConversationState::Applying(Opened { id, .. }) => {
            (Some(AgentSession { id, can_close }), None)
        }
        ConversationState::Ending(ending) => (ending.session, ending.turn),
        _ => (None, None),
    };
    conversation.state = ConversationState::Ending(ShutdownProgress {
        step,
        reason: reason.to_owned(),
        session,
        turn,
        shed: false,
    });
}

/// A turn has ended. Continues an end that waited for it.
pub(in crate::conversation) fn turn_is_over(conversation: &mut Conversation, cx: &mut Cx<'_>) {
    let rpc = conversation.next_rpc + 1;
    let ConversationState::Ending(ending) = &mut conversation.state else { return };
    if ending.step != ShutdownStep::Canceling {
        return;
    }
    match &ending.session {
        Some(session) if session.can_close => {
            ending.step = ShutdownStep::Closing { rpc };
            cx.send(OutgoingKind::Plain, requests::close_session(rpc, &session.id));
            conversation.next_rpc = rpc;
            cx.set_timer(Timer::StopGrace, conversation.config.timeouts.stop_grace_ms);
        }
        _ => close_input(conversation, cx),
    }
}

pub(in crate::conversation) fn close_input(conversation: &mut Conversation, cx: &mut Cx<'_>) {
    set_step(conversation, ShutdownStep::InputClosed);
    cx.push(ConversationAction::CloseInput);
    cx.set_timer(Timer::StopGrace, conversation.config.timeouts.stop_grace_ms);
}

pub(in crate::conversation) fn set_step(conversation: &mut Conversation, step: ShutdownStep) {
    if let ConversationState::Ending(ending) = &mut conversation.state {
        ending.step = step;
    }
}
