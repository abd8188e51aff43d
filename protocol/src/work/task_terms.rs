//! The terms of a task, fixed when it is spawned, independent of later changes of its definition.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::delegation::{RESULT_TOKENS, TTL_HOURS};
use crate::policy::PolicyRule;

/// Default maximum number of tool calls per prompt.
pub const STEPS: u64 = 20;
/// Default time limit of a prompt with a waiting caller, in milliseconds.
pub const FOREGROUND_MS: u64 = 300_000;

/// The terms of a task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TaskTerms {
    /// Maximum number of distinct tool calls per prompt.
    pub max_steps: u64,
    /// Time limit of a prompt in milliseconds; 0: no limit.
    pub timeout_ms: u64,
    /// Whether it is listed as a separate worker.
    pub inspectable: bool,
    /// JSON schema of its final message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result_schema: Option<Value>,
    /// Maximum number of result tokens for the caller.
    pub result_max_tokens: u64,
    /// What it may do without asking, if questions are not asked; empty: its questions are asked.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pre_approved: Vec<PolicyRule>,
    /// Time in hours in which it can be resumed after its end.
    pub ttl_hours: u32,
    /// Whether its changed files are merged into the main work tree when it has completed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub write_back: bool,
    /// Whether the agent of its parent is not notified of its end.
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
            write_back: false,
            ends_silently: false,
        }
    }
}
