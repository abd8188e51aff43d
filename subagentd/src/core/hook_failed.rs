//! The fact that a hook failed.

use serde_json::Value;
use subagent_protocol::event::EventType;
use subagent_protocol::hook::HookFailed;

use super::worker::Fact;

impl Fact {
    /// The event that says that a hook failed.
    pub(crate) fn hook_failed(failed: &HookFailed, turn: Option<u64>) -> Self {
        // Its parts are text and words: it can always be written down.
        let data = serde_json::to_value(failed).unwrap_or(Value::Null);
        Self::Event { event_type: EventType::HookFailed, data, turn }
    }
}
