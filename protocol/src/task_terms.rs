//! What a task was given to keep to: fixed when it is spawned, whatever becomes of its definition.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::delegation::{RESULT_TOKENS, TTL_HOURS};
use crate::policy::PolicyRule;

/// How many tool calls a prompt may make, where the definition says nothing.
pub const STEPS: u64 = 20;
/// How long a prompt may run while somebody waits for it, where the definition says nothing, in milliseconds.
pub const FOREGROUND_MS: u64 = 300_000;

/// The terms of a task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TaskTerms {
    /// Distinct tool calls that a prompt may make.
    pub max_steps: u64,
    /// How long a prompt may run, in milliseconds; 0: no limit.
    pub timeout_ms: u64,
    /// Whether it is listed as a worker of its own.
    pub inspectable: bool,
    /// What its final message has to meet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result_schema: Option<Value>,
    /// How many tokens of its result the caller gets.
    pub result_max_tokens: u64,
    /// What it may do without asking, where nobody is asked; none: its questions are asked.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pre_approved: Vec<PolicyRule>,
    /// For how many hours it can be resumed after its end.
    pub ttl_hours: u32,
    /// Whether the agent of its parent hears nothing of its end.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub ends_silently: bool,
}

impl Default for TaskTerms {
    fn default() -> Self {
        Self {
            max_steps: STEPS,
            timeout_ms: FOREGROUND_MS,
            inspectable: true,
            result_schema: None,
            result_max_tokens: RESULT_TOKENS.into(),
            pre_approved: Vec::new(),
            ttl_hours: TTL_HOURS,
            ends_silently: false,
        }
    }
}
