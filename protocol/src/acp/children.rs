//! The sessions below an agent's own, from the updates that report them (`subagent_update`).
//!
//! Each update is a patch: absent values stay, null removes them. Nothing here fails.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::lenient::{self, Lenient, ObjectField};
use crate::surrogates;

/// The kind of such an update.
pub const UPDATE: &str = "subagent_update";

/// Maximum number of sessions shown, the most recently reported ones.
pub const MAX_CHILDREN: usize = 100;
/// Maximum length of a text; longer ones are not shown.
const MAX_CHARS: usize = 1000;

/// A session below an agent's own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ChildSession {
    /// The agent's id of it.
    pub session_id: String,
    /// Title of the session.
    pub title: Option<String>,
    /// The agent's name of its state (`running`, `idle`, `requires_action`, ...); null if unknown.
    pub state: Option<String>,
}

/// An update of a session, as the agent sent it.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ChildReport<'a> {
    /// The agent's id of the session.
    #[serde(borrow)]
    pub session_id: Lenient<&'a str>,
    /// Title of the session.
    #[serde(deserialize_with = "lenient::present")]
    pub title: Option<Lenient<&'a str>>,
    /// State of the session.
    #[serde(deserialize_with = "lenient::present")]
    pub state: Option<ObjectField<ChildStateReport<'a>>>,
    /// What the client may do with the session.
    #[serde(deserialize_with = "lenient::present")]
    pub capabilities: Option<ObjectField<ChildCapabilities>>,
}

/// The state of a session, as the agent sent it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct ChildStateReport<'a> {
    /// The agent's name of the state.
    #[serde(borrow)]
    pub state: Lenient<&'a str>,
}

/// The capabilities of a session, as the agent sent them.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct ChildCapabilities {
    /// An object, if the session can be canceled.
    pub cancel: Value,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ChildUpdateParams<'a> {
    #[serde(borrow)]
    update: ObjectField<ChildReport<'a>>,
}

impl<'a> ChildReport<'a> {
    /// Reads the `params` of an update.
    #[must_use]
    pub fn of(params: &'a Value) -> Self {
        lenient::read::<ChildUpdateParams<'_>>(params).update.0
    }
}

/// The reported sessions, in the order of their last report.
#[derive(Debug, Default)]
pub struct ChildSessions(Vec<ChildSession>);

impl ChildSessions {
    /// Takes the `params` of an update.
    pub fn see(&mut self, params: &str) {
        let Ok(params) = surrogates::parse::<Value>(params) else { return };
        let update = ChildReport::of(&params);
        let Some(id) = update.session_id.0.map(short) else { return };
        let known = self.0.iter().position(|child| child.session_id == id).map(|at| self.0.remove(at));
        let mut child = known.unwrap_or(ChildSession { session_id: id, title: None, state: None });
        if let Some(title) = update.title {
            child.title = title.0.map(short);
        }
        if let Some(state) = update.state {
            child.state = state.0.state.0.map(short);
        }
        if self.0.len() >= MAX_CHILDREN {
            self.0.remove(0);
        }
        self.0.push(child);
    }

    /// Returns the most recently reported sessions.
    #[must_use]
    pub fn finish(self) -> Vec<ChildSession> {
        self.0
    }
}

fn short(word: &str) -> String {
    word.chars().take(MAX_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn updates_are_patches_and_there_are_never_too_many() {
        let mut children = ChildSessions::default();
        let mut see =
            |update: Value| children.see(&json!({"sessionId": "own", "update": update}).to_string());
        for n in 0..200 {
            see(json!({"sessionId": format!("c{n}"), "title": "T", "state": {"state": "running"}}));
        }
        see(json!({"sessionId": "c150", "state": {"state": "idle"}}));
        see(json!({"sessionId": "c151", "title": null, "state": null}));
        see(json!({"sessionId": 7}));
        children.see("garbage");
        let found = children.finish();
        assert_eq!(found.len(), MAX_CHILDREN);
        let last = |at: usize| serde_json::to_value(&found[MAX_CHILDREN - at]).unwrap();
        assert_eq!(last(2), json!({"sessionId": "c150", "title": "T", "state": "idle"}));
        assert_eq!(last(1), json!({"sessionId": "c151", "title": null, "state": null}));
    }
}
