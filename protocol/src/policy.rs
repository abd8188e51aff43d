//! The rules of a worker as they travel and are stored: resolved once, at its start.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::ids::WorkerId;

/// What an agent may do without asking.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct PolicySpec {
    /// The workspace, absolute: relative patterns are about paths in it.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub workspace: PathBuf,
    /// The owner's home, for `~/` and `$HOME/`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub home: Option<PathBuf>,
    /// The layers, in any order.
    pub layers: Vec<PolicyLayer>,
    /// Of a task: those above it, from the root to its parent. What they say holds for it as well.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ancestors: Vec<PolicyNode>,
    /// Of a task in the background: all that it gets of what would be asked; the rest of that is denied. Each is `allow`.
    /// None: it is asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pre_approved: Option<Vec<PolicyRule>>,
    /// Whether they are those of a task: a task keeps no list of what is to do.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_task: bool,
    /// The folder of the agent's notes, absolute and without links. It reads and writes files there unless a rule says
    /// otherwise; see `memory` of definitions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub memory: Option<PathBuf>,
}

/// One of those above a task, with the rules that it was started with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct PolicyNode {
    /// Its name, for people.
    pub name: String,
    /// The worker that it is: rules that decisions about it became count for it.
    pub worker_id: WorkerId,
    /// Its layers, in any order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub layers: Vec<PolicyLayer>,
    /// As of [`PolicySpec`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pre_approved: Option<Vec<PolicyRule>>,
}

impl PolicySpec {
    /// A worker's own rules, of nobody's task.
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

    /// All those above a task of the worker with these rules, from the root to this worker itself.
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

/// Rules from one place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct PolicyLayer {
    /// `definition`, `config` or `owner`.
    pub layer: String,
    /// The file, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The rules, in their order.
    pub rules: Vec<PolicyRule>,
    /// Of a definition: the only tools that are not denied. None: it lists none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
}

/// One rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct PolicyRule {
    /// What it is about: `TOOL` or `TOOL(PATTERN)`.
    pub rule: String,
    /// `allow`, `ask` or `deny`.
    pub action: String,
    /// The line of the file, counted from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
    /// The column.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub column: Option<u64>,
}
