//! MCP servers for an agent's sessions, in ACP's format.

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::json::extend;
use crate::lenient::{self, Lenient};

/// A list of servers. Commands, addresses, variables and headers may be secrets.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(transparent)]
pub struct McpServers(pub Vec<Value>);

impl McpServers {
    /// Whether there is no server.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the names of the servers.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.0.iter().map(|server| name(server).to_owned()).collect()
    }

    /// Returns the servers with these names, in order; `None` if one is missing.
    #[must_use]
    pub fn named(&self, names: &[String]) -> Option<Self> {
        let one = |wanted: &String| self.0.iter().find(|server| name(server) == wanted).cloned();
        names.iter().map(one).collect::<Option<_>>().map(Self)
    }
}

/// File name of the task server's program, beside that of the runtime.
pub const TASK_SERVER_PROGRAM: &str = "subagent";

/// Adds what depends on the machine to a task server: its program, and the folder in which it finds
/// the daemon.
pub fn complete_task_server(server: &mut Value, program: &Path, state_dir: &Path) {
    let text = |path: &Path| path.to_string_lossy().into_owned();
    extend(server, [("command", text(program).into())]);
    if let Some(env) = server["env"].as_array_mut() {
        env.push(json!({"name": "SUBAGENT_STATE_DIR", "value": text(state_dir)}));
    }
}

/// A server of the list, as far as its name and kind matter.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct NamedServer<'a> {
    /// Name of the server; empty if it has none.
    #[serde(borrow, deserialize_with = "lenient::or_default")]
    pub name: &'a str,
    /// `http` or `sse`; absent for a server that the agent starts.
    #[serde(rename = "type")]
    pub kind: Lenient<&'a str>,
}

/// Returns the name of a server; empty if it has none.
#[must_use]
pub fn name(server: &Value) -> &str {
    lenient::read::<NamedServer<'_>>(server).name
}

impl std::fmt::Debug for McpServers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.names())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn servers_are_found_by_their_names_or_not_at_all() {
        let servers = McpServers(vec![json!({"name": "a"}), json!({"name": "b"}), json!(7)]);
        let named = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
            servers.named(&names).map(|servers| servers.names())
        };
        assert_eq!(named(&["b", "a"]).unwrap(), ["b", "a"]);
        assert_eq!(named(&[]).unwrap(), Vec::<String>::new());
        assert_eq!(named(&["a", "c"]), None);
    }
}
