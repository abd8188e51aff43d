//! The rules of a worker as they travel and are stored: resolved once, at its start.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

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
