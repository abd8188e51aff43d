//! The result of a decision, as it is stored for repetitions of the request.

use subagent_core::model::PermissionDecision;
use subagent_protocol::api::OwnerRule;
use subagent_protocol::ids::EventId;

/// A decision and what followed from it.
#[derive(serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::supervisor) struct StoredDecision {
    pub(in crate::supervisor) decision: String,
    pub(in crate::supervisor) option_id: String,
    pub(in crate::supervisor) alias: Option<String>,
    pub(in crate::supervisor) event_id: EventId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::supervisor) always: Option<OwnerRule>,
}

impl StoredDecision {
    pub(in crate::supervisor) fn of(choice: &PermissionDecision, event_id: EventId) -> Self {
        Self {
            decision: choice.decision.clone(),
            option_id: choice.option_id.clone().unwrap_or_else(|| "cancelled".to_owned()),
            alias: choice.alias.clone(),
            event_id,
            always: None,
        }
    }
}
