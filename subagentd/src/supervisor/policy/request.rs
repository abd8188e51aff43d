//! A permission request with what its record says of the tool call. Pure.

use serde_json::{Map, Value};
use subagent_config::policy::Call;
use subagent_protocol::record::ApprovalRequested;
use subagent_protocol::{fields, surrogates};

/// Longer ids are ignored.
pub(super) const MAX_ID_BYTES: usize = 1024;

/// What a permission request says, and what was said before it.
pub(super) struct Request {
    /// The parameters as the agent sent them.
    pub(super) params: Value,
    /// What it said of the call before.
    before: Map<String, Value>,
}

impl Request {
    pub(super) fn of(asked: &ApprovalRequested) -> Self {
        let params = surrogates::parse(asked.params.get()).unwrap_or(Value::Null);
        let before = asked.tool_call.as_ref().and_then(|before| surrogates::parse(before.get()).ok());
        Self { params, before: before.unwrap_or_default() }
    }

    /// The ids of the call: that of the call that was told of, and the request's own where it differs.
    pub(super) fn ids(&self) -> impl Iterator<Item = String> {
        let own = call_id(&self.params["toolCall"]);
        let before = self.before.get("toolCallId").and_then(Value::as_str).map(str::to_owned);
        let told = before.filter(|id| Some(id) != own.as_ref() && is_id(id));
        told.into_iter().chain(own)
    }

    /// What the agent reported of the call, before the request and with it.
    pub(super) fn told(&self) -> Value {
        let none = Map::new();
        let said = self.params["toolCall"].as_object().unwrap_or(&none);
        Value::Object(joined(&self.before, said))
    }

    /// The call, of which this much is known already. Members belong together, as a title and its input do, so the call is
    /// taken whole: as it was before the request, and as it is with it.
    pub(super) fn call(&self, known: Call) -> Call {
        let mut call = known;
        let Some(said) = self.params["toolCall"].as_object() else { return call };
        if !self.before.is_empty() {
            call.learn(&Value::Object(joined(said, &self.before)));
        }
        call.learn(&Value::Object(joined(&self.before, said)));
        call
    }
}

/// The id of a call, unless it is too long.
pub(super) fn call_id(call: &Value) -> Option<String> {
    call["toolCallId"].as_str().filter(|id| is_id(id)).map(str::to_owned)
}

fn is_id(id: &str) -> bool {
    id.len() <= MAX_ID_BYTES
}

/// The members of both; where both say something, the second one counts.
fn joined(first: &Map<String, Value>, second: &Map<String, Value>) -> Map<String, Value> {
    let mut both = first.clone();
    for (name, value) in second {
        if !fields::says_nothing(value) || !both.contains_key(name) {
            both.insert(name.clone(), value.clone());
        }
    }
    both
}
