//! The `data` of events about the definition of a worker's agent; only their schema is used.

#![allow(dead_code, reason = "only their schema is used")]

use crate::definition::NotHonoured;
use crate::record::PromptBy;

/// What became of the definition that the worker was started with, in the session that its agent has now.
#[derive(utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct AgentApplied {
    /// The name of the definition.
    agent: String,
    /// `command`, `project`, `user` or `built_in`.
    level: String,
    /// Its file.
    source: Option<String>,
    /// Which way its prompt goes to the agent; absent when it has none.
    prompt: Option<PromptBy>,
    /// What of it is not carried out.
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
    /// Its file.
    source: Option<String>,
    /// The definition before; absent when there was none.
    previous: Option<String>,
    /// Always `owner`.
    by: String,
    /// What of it is not carried out.
    not_honoured: Vec<NotHonoured>,
}
