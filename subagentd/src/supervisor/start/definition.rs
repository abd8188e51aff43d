//! The agent definition that a worker was started with: validation, instructions for the runtime,
//! and the event that reports it.

use serde_json::json;
use subagent_core::model::Fact;
use subagent_protocol::data::EventData;
use subagent_protocol::data::definitions::AgentApplied;
use subagent_protocol::definition::{AgentSpec, Instructions, MAX_PROMPT_BYTES, NotHonoured};
use subagent_protocol::record::SessionRecord;
use subagent_protocol::{Code, Error, Result};

/// Maximum length of a name, path or keyword, in bytes.
const MAX_TEXT_BYTES: usize = 8 * 1024;
/// Maximum number of ignored keys in an event.
const MAX_KEYS: usize = 100;
/// Maximum size of the list of ignored keys as JSON, in bytes.
const MAX_KEYS_BYTES: usize = 256 * 1024;

/// Validates a definition for a new worker.
///
/// # Errors
/// `INVALID_INPUT{field}`.
pub(crate) fn check(agent: Option<&AgentSpec>) -> Result<()> {
    let Some(agent) = agent else { return Ok(()) };
    let AgentSpec { name, level, source, prompt, model, mode, not_honoured } = agent;
    let refused = |message: String| Err(Error::new(Code::InvalidInput, message).with("field", "agent"));
    let texts = [Some(name), Some(level), source.as_ref(), model.as_ref(), mode.as_ref()];
    if texts.into_iter().flatten().any(|text| text.is_empty() || text.len() > MAX_TEXT_BYTES) {
        return refused(format!("the texts of a definition have 1 to {MAX_TEXT_BYTES} bytes"));
    }
    if prompt.len() > MAX_PROMPT_BYTES {
        return refused(format!("the prompt of a definition has at most {MAX_PROMPT_BYTES} bytes"));
    }
    if not_honoured.len() > MAX_KEYS || json!(not_honoured).to_string().len() > MAX_KEYS_BYTES {
        return refused("too many keys of the definition are unsupported".to_owned());
    }
    Ok(())
}

/// Returns the instructions for the runtime. `delivered`: the resumed session contains the prompt
/// already. `replaces`: the session may contain the prompt of another definition.
pub(crate) fn instructions(agent: &AgentSpec, delivered: bool, replaces: bool) -> Instructions {
    let AgentSpec { name, prompt, model, .. } = agent.clone();
    Instructions { name, prompt, delivered, replaces, model }
}

/// Returns the event that reports how a started or resumed session applied the definition.
pub(crate) fn applied(agent: &AgentSpec, session: &SessionRecord) -> Fact {
    let mut not_honoured = agent.not_honoured.clone();
    not_honoured.extend(session.no_model.as_ref().map(|model| NotHonoured {
        key: "model".to_owned(),
        value: model.as_str().into(),
        reason: "the agent does not have this model, or rejected it".to_owned(),
    }));
    let applied = AgentApplied {
        agent: agent.name.clone(),
        level: agent.level.clone(),
        source: agent.source.clone(),
        prompt: session.prompt_by,
        not_honoured,
    };
    Fact::Event { data: EventData::AgentApplied(applied), turn: None }
}
