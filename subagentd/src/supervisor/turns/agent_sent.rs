//! Checks an agent definition that comes with a message, before anything is stored.

use std::path::Path;

use subagent_protocol::api::SendTurn;
use subagent_protocol::{Code, Error, Result};

use crate::store::WorkerRow;
use crate::supervisor::policy;
use crate::supervisor::start::{definition, spec};

/// Checks the definition and returns what is stored with the message, as JSON.
///
/// # Errors
/// `INVALID_INPUT{field}` for a simulated turn or a definition that cannot be stored.
/// `AGENT_NOT_USABLE{agent,reason}` for the worker of a task, whose definition is its caller's
/// choice. `INVALID_ARGUMENT` for an invalid rule.
pub(crate) fn accept(request: &SendTurn, row: &WorkerRow) -> Result<Option<String>> {
    let Some(change) = &request.agent else { return Ok(None) };
    if request.simulate.is_some() {
        let message = "a simulated turn takes no definition, because no agent runs it";
        return Err(Error::new(Code::InvalidInput, message).with("field", "agent"));
    }
    definition::check(Some(&change.agent))?;
    if row.agent.is_task {
        let reason = "the worker carries out a task, and the caller of the task decides what it is";
        let name = &change.agent.name;
        let message = format!("the agent `{name}` cannot be given to {}: {reason}", row.worker_id);
        return Err(Error::new(Code::AgentNotUsable, message)
            .with("agent", name.as_str())
            .with("reason", reason)
            .recommend("start another task with it: `subagent task run --agent NAME`"));
    }
    let mut changed = spec::stored(row)
        .ok_or_else(|| Error::new(Code::StorageError, "the worker's spec cannot be read"))?;
    changed.take_agent((**change).clone(), None);
    if let Some(policy) = &changed.policy {
        policy::check_spec(policy, Path::new(&row.cwd))?;
    }
    let text =
        serde_json::to_string(change).map_err(|error| Error::new(Code::Internal, error.to_string()))?;
    Ok(Some(text))
}
