//! A permission request with what was reported about its tool call. Pure.

use serde::Deserialize;
use serde_json::{Map, Value};
use subagent_config::policy::ToolCallDescription;
use subagent_protocol::lenient::{self, Lenient};
use subagent_protocol::record::ApprovalRequested;
use subagent_protocol::tool_content::ToolCallReport;
use subagent_protocol::{fields, surrogates};

/// Maximum length of a call id, in bytes. Longer ids are ignored.
pub(super) const MAX_ID_BYTES: usize = 1024;

/// The `params` of a permission request.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct AskedParams {
    tool_call: Lenient<Map<String, Value>>,
    options: Lenient<Vec<Value>>,
}

/// A permission request and the earlier report of its call.
pub(super) struct PermissionRequest {
    /// The parameters as the agent sent them.
    /// The call as the request has it.
    pub(super) tool_call: Option<Map<String, Value>>,
    /// Whether the request offers choices. Without them, the view contains made-up ones for people.
    pub(super) offers: bool,
    /// The call as it was reported before the request.
    before: Map<String, Value>,
}

impl PermissionRequest {
    pub(super) fn of(asked: &ApprovalRequested) -> Self {
        let params = surrogates::parse(asked.params.get()).unwrap_or(Value::Null);
        let AskedParams { tool_call, options } = lenient::take(params);
        let offers = options.0.is_some_and(|options| !options.is_empty());
        let before = asked.tool_call.as_ref().and_then(|before| surrogates::parse(before.get()).ok());
        Self { tool_call: tool_call.0, offers, before: before.unwrap_or_default() }
    }

    /// Returns the ids of the call: the reported one, and the request's own if it differs.
    pub(super) fn ids(&self) -> impl Iterator<Item = String> {
        let own = self.tool_call.as_ref().and_then(|call| call_id(&ToolCallReport::of(call)));
        let reported = call_id(&ToolCallReport::of(&self.before)).filter(|id| Some(id) != own.as_ref());
        reported.into_iter().chain(own)
    }

    /// Returns the call as reported before and with the request.
    pub(super) fn reported(&self) -> Value {
        let said = self.tool_call.as_ref().map(|said| joined(&self.before, said));
        Value::Object(said.unwrap_or_else(|| self.before.clone()))
    }

    /// Returns the call, extending `known`. Members belong together, such as title and input, so
    /// the call is learned as a whole: as it was before the request, and as it is with it.
    pub(super) fn call(&self, known: ToolCallDescription) -> ToolCallDescription {
        let mut call = known;
        let Some(said) = &self.tool_call else { return call };
        if !self.before.is_empty() {
            call.learn(&Value::Object(joined(said, &self.before)));
        }
        call.learn(&Value::Object(joined(&self.before, said)));
        call
    }
}

/// Returns the id of a call, unless it is too long.
pub(super) fn call_id(call: &ToolCallReport<'_>) -> Option<String> {
    call.tool_call_id.0.filter(|id| id.len() <= MAX_ID_BYTES).map(str::to_owned)
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
