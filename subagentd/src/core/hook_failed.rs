//! The fact that a hook failed.

use serde_json::Value;
use subagent_protocol::event::EventType;
use subagent_protocol::hook::HookFailed;

use super::worker::Fact;

impl Fact {
    /// Returns the event of a failed hook.
    pub(crate) fn hook_failed(failed: &HookFailed, turn: Option<u64>) -> Self {
        // Serialization of plain text fields cannot fail.
        let data = serde_json::to_value(failed).unwrap_or(Value::Null);
        Self::Event { event_type: EventType::HookFailed, data, turn }
    }
}
