//! A permission request with what was reported about its tool call. Pure.

use serde_json::{Map, Value};
use subagent_config::policy::ToolCallDescription;
use subagent_protocol::record::ApprovalRequested;
use subagent_protocol::{fields, surrogates};

/// Maximum length of a call id, in bytes. Longer ids are ignored.
pub(super) const MAX_ID_BYTES: usize = 1024;

/// A permission request and the earlier report of its call.
pub(super) struct PermissionRequest {
    /// The parameters as the agent sent them.
    pub(super) params: Value,
    /// The call as it was reported before the request.
    before: Map<String, Value>,
}

impl PermissionRequest {
    pub(super) fn of(asked: &ApprovalRequested) -> Self {
        let params = surrogates::parse(asked.params.get()).unwrap_or(Value::Null);
        let before = asked.tool_call.as_ref().and_then(|before| surrogates::parse(before.get()).ok());
        Self { params, before: before.unwrap_or_default() }
    }

    /// Returns the ids of the call: the reported one, and the request's own if it differs.
    pub(super) fn ids(&self) -> impl Iterator<Item = String> {
        let own = call_id(&self.params["toolCall"]);
        let before = self.before.get("toolCallId").and_then(Value::as_str).map(str::to_owned);
        let reported = before.filter(|id| Some(id) != own.as_ref() && is_id(id));
        reported.into_iter().chain(own)
    }

    /// Returns the call as reported before and with the request.
    pub(super) fn reported(&self) -> Value {
        let none = Map::new();
        let said = self.params["toolCall"].as_object().unwrap_or(&none);
        Value::Object(joined(&self.before, said))
    }

    /// Returns the call, extending `known`. Members belong together, such as title and input, so
    /// the call is learned as a whole: as it was before the request, and as it is with it.
    pub(super) fn call(&self, known: ToolCallDescription) -> ToolCallDescription {
        let mut call = known;
        let Some(said) = self.params["toolCall"].as_object() else { return call };
        if !self.before.is_empty() {
            call.learn(&Value::Object(joined(said, &self.before)));
        }
        call.learn(&Value::Object(joined(&self.before, said)));
        call
    }
}

/// Returns the id of a call, unless it is too long.
pub(super) fn call_id(call: &Value) -> Option<String> {
    call["toolCallId"].as_str().filter(|id| is_id(id)).map(str::to_owned)
}

fn is_id(id: &str) -> bool {
    id.len() <= MAX_ID_BYTES
}

/// Merges two objects. A member of the second one wins, unless it is empty.
fn joined(first: &Map<String, Value>, second: &Map<String, Value>) -> Map<String, Value> {
    let mut both = first.clone();
    for (name, value) in second {
        if !fields::says_nothing(value) || !both.contains_key(name) {
            both.insert(name.clone(), value.clone());
        }
    }
    both
}
