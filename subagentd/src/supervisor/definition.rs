//! The definition of the agent that a worker was started with: what is taken of it, and what is told of it.

use serde_json::json;
use subagent_protocol::definition::{AgentSpec, Instructions, MAX_PROMPT_BYTES, NotHonoured};
use subagent_protocol::event::EventType;
use subagent_protocol::record::Session;
use subagent_protocol::{Code, Error, Result};

use crate::core::Fact;

/// A longer name, path or word is none.
const MOST_TEXT_BYTES: usize = 8 * 1024;
/// More keys are not told of.
const MOST_KEYS: usize = 100;
/// The longest such list, as JSON.
const MOST_KEYS_BYTES: usize = 256 * 1024;

/// Whether a worker can be started with this definition.
///
/// # Errors
/// `INVALID_INPUT{field}`.
pub(super) fn check(agent: Option<&AgentSpec>) -> Result<()> {
    let Some(agent) = agent else { return Ok(()) };
    let AgentSpec { name, level, source, prompt, model, mode, not_honoured } = agent;
    let refused = |message: String| Err(Error::new(Code::InvalidInput, message).with("field", "agent"));
    let texts = [Some(name), Some(level), source.as_ref(), model.as_ref(), mode.as_ref()];
    if texts.into_iter().flatten().any(|text| text.is_empty() || text.len() > MOST_TEXT_BYTES) {
        return refused(format!("the texts of a definition have 1 to {MOST_TEXT_BYTES} bytes"));
    }
    if prompt.len() > MAX_PROMPT_BYTES {
        return refused(format!("the prompt of a definition has at most {MAX_PROMPT_BYTES} bytes"));
    }
    if not_honoured.len() > MOST_KEYS || json!(not_honoured).to_string().len() > MOST_KEYS_BYTES {
        return refused("there are too many keys of a definition that are not carried out".to_owned());
    }
    Ok(())
}

/// What a runtime is told; `told` says whether the session that it restores holds the prompt, `replaces` whether it may hold
/// that of another definition.
pub(super) fn instructions(agent: &AgentSpec, told: bool, replaces: bool) -> Instructions {
    let AgentSpec { name, prompt, model, .. } = agent.clone();
    Instructions { name, prompt, told, replaces, model }
}

/// What a session that has begun or was taken up means to the definition, as an event.
pub(super) fn applied(agent: &AgentSpec, session: &Session) -> Fact {
    let mut not_honoured = agent.not_honoured.clone();
    not_honoured.extend(session.no_model.as_ref().map(|model| NotHonoured {
        key: "model".to_owned(),
        value: model.as_str().into(),
        reason: "the agent does not have this model, or did not take it".to_owned(),
    }));
    let mut data = json!({"agent": agent.name, "level": agent.level, "notHonoured": not_honoured});
    if let Some(source) = &agent.source {
        data["source"] = source.as_str().into();
    }
    if let Some(way) = session.prompt_by {
        data["prompt"] = way.as_str().into();
    }
    Fact::Event { event_type: EventType::AgentApplied, data, turn: None }
}
