//! The sessions below the agent's own that the agent has reported (`subagent_update`). Agents
//! report them to clients that declare the capability `subagents`, as ours does. They serve to name
//! the session that asks, and to cancel sessions that support it.

use serde::Deserialize;
use serde_json::Value;
use subagent_protocol::children::ChildReport;
use subagent_protocol::record::Child;
use subagent_protocol::surrogates;

/// The kind of update that reports such a session.
pub(super) const UPDATE: &str = "subagent_update";

/// Maximum number of known sessions, so that an agent cannot fill the memory.
const MAX_SESSIONS: usize = 100;
/// Maximum length of ids and titles, in bytes; longer ones are ignored.
const MAX_ID_BYTES: usize = 1024;
const MAX_TITLE_LETTERS: usize = 200;

/// A session below the agent's own.
struct KnownChildSession {
    id: String,
    title: Option<String>,
    /// Whether this session can be canceled separately.
    cancelable: bool,
    idle: bool,
}

/// The known sessions, the most recently reported one last.
#[derive(Default)]
pub(super) struct KnownChildSessions(Vec<KnownChildSession>);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Asking {
    session_id: Option<Value>,
}

impl KnownChildSessions {
    /// Takes the `params` of an update. Absent values stay, null removes them.
    pub(super) fn see(&mut self, params: &str) {
        let Ok(params) = surrogates::parse::<Value>(params) else { return };
        let update = ChildReport::of(&params);
        let Some(id) = update.session_id.0.filter(|id| id.len() <= MAX_ID_BYTES) else { return };
        let known = self.0.iter().position(|session| session.id == id).map(|at| self.0.remove(at));
        let mut session = known.unwrap_or_else(|| KnownChildSession {
            id: id.to_owned(),
            title: None,
            cancelable: false,
            idle: false,
        });
        if let Some(title) = update.title {
            session.title = title.0.map(|title| title.chars().take(MAX_TITLE_LETTERS).collect());
        }
        if let Some(capabilities) = update.capabilities {
            session.cancelable = capabilities.0.cancel.is_object();
        }
        if let Some(state) = update.state {
            session.idle = state.0.state.0 == Some("idle");
        }
        if self.0.len() >= MAX_SESSIONS {
            // Prefers to drop an idle session.
            let at = self.0.iter().position(|session| session.idle).unwrap_or(0);
            self.0.remove(at);
        }
        self.0.push(session);
    }

    /// Whether this session exists and can be canceled separately.
    pub(super) fn takes_cancel(&self, id: &str) -> bool {
        self.0.iter().any(|session| session.id == id && session.cancelable)
    }

    /// Working sessions that can be canceled separately. The others are canceled with their parent.
    pub(super) fn to_cancel(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter(|session| session.cancelable && !session.idle).map(|session| session.id.as_str())
    }

    /// Returns the session that sent a request, if it is not the worker's own.
    pub(super) fn asking(&self, own: Option<&str>, params: &str) -> Child {
        let Some(own) = own else { return Child::default() };
        let asking = surrogates::parse::<Asking>(params).ok().and_then(|asking| asking.session_id);
        match asking {
            Some(Value::String(id)) if id != own && id.len() <= MAX_ID_BYTES => {
                Child { session_title: self.title(&id), session_id: Some(id) }
            }
            _ => Child::default(),
        }
    }

    fn title(&self, id: &str) -> Option<String> {
        self.0.iter().find(|session| session.id == id)?.title.clone()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn see(children: &mut KnownChildSessions, update: &Value) {
        children.see(&json!({"sessionId": "own", "update": update}).to_string());
    }

    fn to_cancel(children: &KnownChildSessions) -> Vec<&str> {
        children.to_cancel().collect()
    }

    #[test]
    fn an_update_is_a_patch() {
        let mut children = KnownChildSessions::default();
        see(&mut children, &json!({"sessionId": "a", "title": "Tests", "capabilities": {"cancel": {}}}));
        assert_eq!((to_cancel(&children), children.title("a").as_deref()), (vec!["a"], Some("Tests")));
        see(&mut children, &json!({"sessionId": "a", "state": {"state": "idle"}}));
        assert_eq!((to_cancel(&children), children.title("a").as_deref()), (vec![], Some("Tests")));
        see(&mut children, &json!({"sessionId": "a", "title": null, "state": {"state": "running"}}));
        assert_eq!((to_cancel(&children), children.title("a")), (vec!["a"], None));
        see(&mut children, &json!({"sessionId": "a", "capabilities": null}));
        assert_eq!(to_cancel(&children), Vec::<&str>::new());
        for odd in [json!({}), json!({"sessionId": 7}), json!("x")] {
            see(&mut children, &odd);
        }
        children.see("garbage");
        assert_eq!(children.0.len(), 1);
    }

    #[test]
    fn not_more_are_known_than_fit_and_those_that_work_are_kept() {
        let mut children = KnownChildSessions::default();
        let running =
            json!({"sessionId": "works", "capabilities": {"cancel": {}}, "state": {"state": "running"}});
        see(&mut children, &running);
        for n in 0..1000 {
            see(&mut children, &json!({"sessionId": n.to_string(), "state": {"state": "idle"}}));
        }
        assert_eq!((children.0.len(), to_cancel(&children)), (MAX_SESSIONS, vec!["works"]));
        see(&mut children, &json!({"sessionId": "x".repeat(MAX_ID_BYTES + 1)}));
        assert_eq!(children.0.len(), MAX_SESSIONS);
    }
}
