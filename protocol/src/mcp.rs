//! MCP servers that an agent gets for its sessions, as ACP has them.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A list of servers. Commands, addresses, variables and headers may be secrets.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(transparent)]
pub struct McpServers(pub Vec<Value>);

impl McpServers {
    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Their names.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.0.iter().map(|server| server["name"].as_str().unwrap_or_default().to_owned()).collect()
    }
}

impl std::fmt::Debug for McpServers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.names())
    }
}
