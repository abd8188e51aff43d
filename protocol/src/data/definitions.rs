//! The `data` of events about the definition of a worker's agent; only their schema is used.

#![allow(dead_code, reason = "only their schema is used")]

use crate::definition::NotHonoured;
use crate::record::PromptBy;

/// The effect of the worker's definition on the agent's present session.
#[derive(utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct AgentApplied {
    /// The name of the definition.
    agent: String,
    /// `command`, `project`, `user` or `built_in`.
    level: String,
    /// Path of its file.
    source: Option<String>,
    /// How its prompt is sent to the agent; absent without a prompt.
    prompt: Option<PromptBy>,
    /// Keys of the definition without effect.
    not_honoured: Vec<NotHonoured>,
}

/// The worker has another definition from this turn on.
#[derive(utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct AgentChanged {
    /// The name of the definition.
    agent: String,
    /// `command`, `project`, `user` or `built_in`.
    level: String,
    /// Path of its file.
    source: Option<String>,
    /// The former definition; absent without one.
    previous: Option<String>,
    /// The decider, which is always `owner`.
    by: String,
    /// Keys of the definition without effect.
    not_honoured: Vec<NotHonoured>,
}
