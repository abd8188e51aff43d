//! What the definition of an agent adds to its session: a prompt, and a model that is wished for.
//!
//! The prompt goes as ACP's `systemPrompt` where the agent offers that; else as a marked block before a prompt, until one of
//! these was answered in the session that the agent has.

use serde_json::Value;
use subagent_protocol::definition::{Instructions, is_kept};
use subagent_protocol::frame::Change;
use subagent_protocol::options::Choice;
use subagent_protocol::record::PromptBy;

use super::Conversation;
use crate::acp::requests::Place;

fn with_prompt(place: &Place) -> Option<&Instructions> {
    let says = |instructions: &&Instructions| !instructions.prompt.is_empty() || instructions.replaces;
    place.instructions.as_ref().filter(says)
}

/// What stands before the next prompt.
pub(super) fn block(place: &Place) -> Option<Value> {
    let instructions =
        with_prompt(place).filter(|instructions| !place.system_prompt && !instructions.told)?;
    Some(instructions.block())
}

impl Conversation {
    /// What the agent offers is known.
    pub(super) fn take_system_prompt(&mut self, offered: bool) {
        self.config.place.system_prompt = offered && with_prompt(&self.config.place).is_some();
    }

    /// There is a session; a `fresh` one knows nothing of what was said in an earlier one.
    pub(super) fn prompt_by(&mut self, fresh: bool) -> Option<PromptBy> {
        let place = &mut self.config.place;
        if fresh && let Some(instructions) = &mut place.instructions {
            instructions.told = false;
        }
        with_prompt(place)?;
        Some(if place.system_prompt { PromptBy::SystemPrompt } else { PromptBy::FirstPrompt })
    }

    /// A prompt was answered.
    pub(super) fn instructions_kept(&mut self, stop_reason: Option<&str>) {
        if let Some(instructions) = &mut self.config.place.instructions {
            instructions.told |= is_kept(stop_reason);
        }
    }

    /// Another definition for the session that there is. Says whether something of the session is to be set for it before
    /// its prompt.
    pub(super) fn take_change(&mut self, change: &Change) -> bool {
        let place = &mut self.config.place;
        let same = |known: &Instructions| {
            let Instructions { name, prompt, .. } = &change.instructions;
            (&known.name, &known.prompt) == (name, prompt)
        };
        // A runtime that was started for this turn has it from its start.
        if !place.instructions.as_ref().is_some_and(same) {
            place.instructions = Some(Instructions { told: false, ..change.instructions.clone() });
            place.system_prompt = false;
        }
        self.config.client_rules.clone_from(&change.client_rules);
        self.want_changes(&change.options, change.instructions.model.as_deref())
    }

    /// The model that the definition wishes for, unless somebody has chosen one.
    pub(super) fn wished_model(&self) -> Option<Choice> {
        let chosen = self.config.options.model.is_some();
        let wish = self.config.place.instructions.as_ref()?.model.clone().filter(|_| !chosen)?;
        Some(Choice::Model { value: wish })
    }
}
