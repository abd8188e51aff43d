//! What an agent's definition adds to its session: a prompt and a preferred model. The prompt is
//! sent as ACP's `systemPrompt` if the agent offers that. Otherwise it goes as a marked block
//! before each prompt until the current session has answered one.

use serde_json::Value;
use subagent_protocol::definition::{Instructions, is_kept};
use subagent_protocol::frame::DefinitionChange;
use subagent_protocol::options::SessionOption;
use subagent_protocol::record::PromptBy;

use crate::acp::requests::SessionContext;
use crate::conversation::state::Conversation;

fn with_prompt(context: &SessionContext) -> Option<&Instructions> {
    let says = |instructions: &&Instructions| !instructions.prompt.is_empty() || instructions.replaces;
    context.instructions.as_ref().filter(says)
}

/// Returns the block before the next prompt.
pub(in crate::conversation) fn block(context: &SessionContext) -> Option<Value> {
    let instructions =
        with_prompt(context).filter(|instructions| !context.system_prompt && !instructions.delivered)?;
    Some(instructions.block())
}

/// The agent's capabilities are known.
pub(in crate::conversation) fn take_system_prompt(context: &mut SessionContext, offered: bool) {
    context.system_prompt = offered && with_prompt(context).is_some();
}

/// There is a session. A `fresh` one does not know earlier instructions.
pub(in crate::conversation) fn prompt_by(context: &mut SessionContext, fresh: bool) -> Option<PromptBy> {
    if fresh && let Some(instructions) = &mut context.instructions {
        instructions.delivered = false;
    }
    with_prompt(context)?;
    Some(if context.system_prompt { PromptBy::SystemPrompt } else { PromptBy::FirstPrompt })
}

/// A prompt was answered.
pub(in crate::conversation) fn instructions_kept(context: &mut SessionContext, stop_reason: Option<&str>) {
    if let Some(instructions) = &mut context.instructions {
        instructions.delivered |= is_kept(stop_reason);
    }
}

/// Applies another definition to the present session. Returns whether an option must be
/// set before the prompt.
pub(in crate::conversation) fn take_change(
    conversation: &mut Conversation,
    change: &DefinitionChange,
) -> bool {
    let context = &mut conversation.config.context;
    let same = |known: &Instructions| {
        let Instructions { name, prompt, .. } = &change.instructions;
        (&known.name, &known.prompt) == (name, prompt)
    };
    // A runtime started for this turn already has the definition.
    if !context.instructions.as_ref().is_some_and(same) {
        context.instructions = Some(Instructions { delivered: false, ..change.instructions.clone() });
        context.system_prompt = false;
    }
    conversation.config.client_rules.clone_from(&change.client_rules);
    conversation.settings.want_changes(&change.options, change.instructions.model.as_deref())
}

/// Returns the model that the definition prefers, unless a client has chosen one.
pub(in crate::conversation) fn wished_model(conversation: &Conversation) -> Option<SessionOption> {
    let chosen = conversation.config.options.model.is_some();
    let wish = conversation.config.context.instructions.as_ref()?.model.clone().filter(|_| !chosen)?;
    Some(SessionOption::Model { value: wish })
}
