//! From an open session to a ready one: sets the chosen session options one after the other, and
//! later those of commands. Records each outcome.

use serde_json::json;
use subagent_protocol::MAX_LINE_BYTES;
use subagent_protocol::error::{Code, Error};
use subagent_protocol::frame::Refusal;
use subagent_protocol::mcp::McpServers;
use subagent_protocol::options::{Options, PATIENCE, SessionOption};
use subagent_protocol::record::{self, RecordType, SessionOrigin};

use super::definition;
use super::settings::{ActiveOption, MAX_WAITING, PendingOption};
use crate::acp::message::RpcOutcome;
use crate::acp::options::Setter;
use crate::acp::outgoing::OutgoingKind;
use crate::acp::{requests, results};
use crate::conversation::effects::{ConversationAction, Cx, Storage, Timer};
use crate::conversation::end::ending;
use crate::conversation::state::{AgentSession, Attempt, Conversation, ConversationState, Opened};
use crate::conversation::{errors, turn_end};
use crate::shorten;

/// Maximum length of the reason for a lost session, in bytes.
pub(in crate::conversation) const MAX_REASON: usize = 1000;

/// A session was opened. Its options are set before it is ready.
pub(in crate::conversation) fn session_opened(
    conversation: &mut Conversation,
    opened: Opened,
    cx: &mut Cx<'_>,
) {
    cx.clear_timer(Timer::Startup);
    cx.clear_timer(Timer::Phase);
    let optional = definition::wished_model(conversation).map(|choice| (choice, true));
    let chosen = conversation.config.options.choices().into_iter().map(|choice| (choice, false));
    let wishes = optional.into_iter().chain(chosen);
    let wishes = wishes.map(|(choice, optional)| PendingOption { choice, request: None, optional });
    conversation.settings.waiting.extend(wishes);
    conversation.state = ConversationState::Applying(opened);
    next_setting(conversation, cx);
}

/// The daemon asks to set options.
pub(in crate::conversation) fn set_options(
    conversation: &mut Conversation,
    request: &str,
    options: &Options,
) -> Result<(), Refusal> {
    let choices = options.choices();
    if !matches!(conversation.state, ConversationState::Ready { .. }) {
        return Err(Refusal::NotReady);
    }
    if conversation.storage == Storage::Full {
        return Err(Refusal::StorageFull);
    }
    if conversation.settings.waiting.len() + choices.len() > MAX_WAITING {
        return Err(Refusal::TooMany);
    }
    let wish = |choice| PendingOption { choice, request: Some(request.to_owned()), optional: false };
    let wishes = choices.into_iter().map(wish);
    conversation.settings.waiting.extend(wishes);
    Ok(())
}

/// Sets the next option, unless one is being set.
pub(in crate::conversation) fn next_setting(conversation: &mut Conversation, cx: &mut Cx<'_>) {
    while conversation.settings.asked.is_none() {
        let session = match &conversation.state {
            ConversationState::Ready { session, .. } => session.id.clone(),
            ConversationState::Applying(opened) => opened.id.clone(),
            _ => return,
        };
        let Some(mut wish) = conversation.settings.waiting.pop_front() else {
            turn_end::release_prompt(conversation, cx);
            return ready(conversation, cx);
        };
        if let SessionOption::Model { value } = &mut wish.choice
            && wish.optional
        {
            let Some(id) = conversation.settings.offer.model(value) else {
                has_no_model(conversation, wish, cx);
                continue;
            };
            *value = id;
        }
        match conversation.settings.offer.setter(&wish.choice) {
            Ok(setter) => {
                let rpc = conversation.rpc();
                cx.send(OutgoingKind::Plain, requests::set(rpc, &session, &setter));
                cx.set_timer_to(Timer::Option, PATIENCE);
                conversation.settings.asked = Some(ActiveOption { rpc, wish, setter });
            }
            Err(unavailable) => {
                let error = errors::option_unavailable(&wish.choice, &unavailable);
                not_set(conversation, wish, None, error, cx);
            }
        }
    }
}

/// The agent works without the definition's preferred model. In an established session this
/// is reported at once.
fn has_no_model(conversation: &mut Conversation, wish: PendingOption, cx: &mut Cx<'_>) {
    if matches!(conversation.state, ConversationState::Applying(_)) {
        conversation.settings.no_model = Some(wish.choice.value().to_string());
        return;
    }
    let error = match conversation.settings.offer.setter(&wish.choice) {
        Err(unavailable) => errors::option_unavailable(&wish.choice, &unavailable),
        Ok(_) => Error::new(Code::OptionNotAvailable, "the definition's model name matches several models"),
    };
    conversation.settings.record(&wish, None, Err(error), cx);
}

pub(in crate::conversation) fn option_answered(
    conversation: &mut Conversation,
    outcome: RpcOutcome<'_>,
    cx: &mut Cx<'_>,
) {
    let Some(ActiveOption { wish, setter, .. }) = conversation.settings.asked.take() else { return };
    cx.clear_timer(Timer::Option);
    match outcome {
        RpcOutcome::Result(raw) => {
            conversation.settings.offer.set(&setter, &results::value(raw));
            conversation.settings.record(&wish, Some(&setter), Ok(raw), cx);
        }
        RpcOutcome::Error(error) => {
            let error = errors::option_rejected(&wish.choice, setter.method(), &results::value(error));
            not_set(conversation, wish, Some(&setter), error, cx);
        }
    }
    next_setting(conversation, cx);
}

pub(in crate::conversation) fn option_timeout(conversation: &mut Conversation, cx: &mut Cx<'_>) {
    let Some(ActiveOption { wish, setter, .. }) = conversation.settings.asked.take() else { return };
    let error = errors::option_timeout(&wish.choice, setter.method(), PATIENCE.as_secs(), &cx.tail.text());
    not_set(conversation, wish, Some(&setter), error, cx);
    next_setting(conversation, cx);
}

/// An option was not set. Drops the other options of the same command.
fn not_set(
    conversation: &mut Conversation,
    wish: PendingOption,
    setter: Option<&Setter>,
    error: Error,
    cx: &mut Cx<'_>,
) {
    if wish.optional {
        conversation.settings.no_model = Some(wish.choice.value().to_string());
        return conversation.settings.record(&wish, setter, Err(error), cx);
    }
    conversation.settings.waiting.retain(|other| other.request != wish.request);
    conversation.settings.record(&wish, setter, Err(error.clone()), cx);
    match (&conversation.state, &wish.request) {
        (ConversationState::Ready { .. }, None) => turn_end::give_up_prompt(conversation, error, cx),
        (_, None) => ending::fail_start(conversation, error, cx),
        (_, Some(_)) => {}
    }
}

/// All options of the session are set.
fn ready(conversation: &mut Conversation, cx: &mut Cx<'_>) {
    let ConversationState::Applying(Opened { id, attempt, lost, result }) = &mut conversation.state else {
        return;
    };
    let (id, attempt) = (std::mem::take(id), *attempt);
    let (lost, opened) = (std::mem::take(lost), result.take());
    // A session with another id than the stored one has unknown content.
    let context_lost =
        conversation.config.session.as_ref().is_some_and(|stored| attempt == Attempt::New || *stored != id);
    let prompt_by =
        definition::prompt_by(&mut conversation.config.context, attempt == Attempt::New || context_lost);
    let agent = conversation.agent.as_ref();
    // A record that is too long for its reader might lose the session.
    let room = MAX_LINE_BYTES.saturating_sub(agent.map_or(0, |agent| agent.raw.get().len()));
    let opened = opened.filter(|opened| opened.get().len() <= room);
    let body = record::SessionRecord {
        session_id: id.clone(),
        origin: match attempt {
            Attempt::New => SessionOrigin::New,
            Attempt::Load => SessionOrigin::Loaded,
            Attempt::Resume => SessionOrigin::Resumed,
        },
        context_lost,
        context_lost_reason: (context_lost && !lost.is_empty())
            .then(|| shorten::text(&lost.join("; "), 4 * MAX_REASON)),
        agent: agent.map_or_else(|| crate::journal::batch::to_raw(&json!(null)), |agent| agent.raw.clone()),
        opened,
        prompt_by,
        no_model: conversation.settings.no_model.take(),
        began: std::mem::take(&mut conversation.settings.began),
    };
    let can_close = agent.is_some_and(|agent| agent.capabilities.close);
    cx.record(RecordType::Session, None, &body);
    if conversation.replay.updates > 0 {
        cx.push(ConversationAction::Note(format!(
            "{} replayed {} updates",
            attempt.method(),
            conversation.replay.updates
        )));
    }
    conversation.first_noise = None;
    // The servers may contain secrets and are no longer needed.
    conversation.config.context.mcp_servers = McpServers::default();
    conversation.state = ConversationState::Ready { session: AgentSession { id, can_close }, turn: None };
}
