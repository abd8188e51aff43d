//! The rules of a worker, as they are sent and stored: resolved once, at its start.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::ids::WorkerId;

/// What an agent may do without asking.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct PolicySpec {
    /// Absolute path of the workspace, which relative patterns refer to.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub workspace: PathBuf,
    /// The owner's home, for `~/` and `$HOME/`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub home: Option<PathBuf>,
    /// The layers, in any order.
    pub layers: Vec<PolicyLayer>,
    /// For a task: the nodes above it, from the root to its parent, whose rules apply too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ancestors: Vec<PolicyNode>,
    /// For a background task: the only permitted actions of those that would be asked; all others
    /// are denied. Each is `allow`. Absent: they are asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pre_approved: Option<Vec<PolicyRule>>,
    /// Whether the rules are a task's, which has no to-do list.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_task: bool,
    /// Absolute folder of the agent's notes, without links. The agent may read and write files
    /// there unless a rule says otherwise; see `memory` of definitions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub memory: Option<PathBuf>,
}

/// A node above a task, with the rules of its start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct PolicyNode {
    /// The worker's name for display.
    pub name: String,
    /// Its worker: rules created from decisions about it apply to it.
    pub worker_id: WorkerId,
    /// Its layers, in any order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub layers: Vec<PolicyLayer>,
    /// The same as in [`PolicySpec`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pre_approved: Option<Vec<PolicyRule>>,
}

impl PolicySpec {
    /// Creates the rules of a worker that is not a task.
    #[must_use]
    pub fn own(workspace: PathBuf, home: Option<PathBuf>, layers: Vec<PolicyLayer>) -> Self {
        Self {
            workspace,
            home,
            layers,
            ancestors: Vec::new(),
            pre_approved: None,
            is_task: false,
            memory: None,
        }
    }

    /// Returns the nodes above a task of the worker with these rules, from the root
    /// to this worker itself.
    #[must_use]
    pub fn lineage(policy: Option<&Self>, name: String, worker_id: WorkerId) -> Vec<PolicyNode> {
        let (mut found, layers, pre_approved) = match policy {
            Some(own) => (own.ancestors.clone(), own.layers.clone(), own.pre_approved.clone()),
            None => (Vec::new(), Vec::new(), None),
        };
        found.push(PolicyNode { name, worker_id, layers, pre_approved });
        found
    }
}

/// Rules from one source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct PolicyLayer {
    /// `definition`, `config` or `owner`, as text.
    pub layer: String,
    /// The file, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The rules in their order.
    pub rules: Vec<PolicyRule>,
    /// For a definition: the only tools that are not denied. Empty: it lists none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
}

/// One rule for tool calls.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct PolicyRule {
    /// The condition: `TOOL` or `TOOL(PATTERN)`.
    pub rule: String,
    /// `allow`, `ask` or `deny`, as text.
    pub action: String,
    /// The line of the file, counted from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
    /// The column in that line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub column: Option<u64>,
}
