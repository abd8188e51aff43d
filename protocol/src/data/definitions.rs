//! The `data` of events about the definition of a worker's agent.

use serde::{Deserialize, Serialize};

use crate::definition::NotHonoured;
use crate::record::PromptBy;

/// The effect of the worker's definition on the agent's present session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct AgentApplied {
    /// The name of the definition.
    pub agent: String,
    /// `command`, `project`, `user` or `built_in`.
    pub level: String,
    /// Path of its file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// How its prompt is sent to the agent; absent without a prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<PromptBy>,
    /// Keys of the definition without effect.
    pub not_honoured: Vec<NotHonoured>,
}

/// The worker has another definition from this turn on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct AgentChanged {
    /// The name of the definition.
    pub agent: String,
    /// `command`, `project`, `user` or `built_in`.
    pub level: String,
    /// Path of its file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The former definition; absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<String>,
    /// The decider, which is always `owner`.
    pub by: String,
    /// Keys of the definition without effect.
    pub not_honoured: Vec<NotHonoured>,
}
