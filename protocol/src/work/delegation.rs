//! The delegation settings of a worker: where definitions and launchers are found, and the limits
//! of tasks below it. Fixed at its start; the files are read again for each task.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::error::{Code, Error, Result};

/// Default maximum depth of tasks. A root has depth 0.
pub const DEPTH: u32 = 5;
/// Default maximum number of running tasks per root.
pub const ACTIVE: u32 = 6;
/// Default maximum number of tasks per root.
pub const TASKS: u32 = 100;
/// Default time in hours in which an ended task can be resumed.
pub const TTL_HOURS: u32 = 24;
/// Default maximum number of result tokens for the caller.
pub const RESULT_TOKENS: u32 = 8_192;
/// The upper bounds of these, in the same order.
pub const MAX_LIMITS: [u32; 5] = [100, 1_000, 100_000, 24 * 366, 1_000_000];

/// Limits of the tasks below a root.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct TaskLimits {
    /// Maximum depth of nested tasks.
    pub max_depth: u32,
    /// Maximum number of running tasks; others wait.
    pub max_active: u32,
    /// Maximum number of tasks in total.
    pub max_tasks: u32,
    /// Time in hours in which an ended task can be resumed.
    pub task_ttl_hours: u32,
    /// Maximum number of result tokens for the caller, unless the agent's definition sets one.
    pub result_max_tokens: u32,
}

impl Default for TaskLimits {
    fn default() -> Self {
        Self {
            max_depth: DEPTH,
            max_active: ACTIVE,
            max_tasks: TASKS,
            task_ttl_hours: TTL_HOURS,
            result_max_tokens: RESULT_TOKENS,
        }
    }
}

impl TaskLimits {
    /// Checks limits from outside.
    ///
    /// # Errors
    ///
    /// `INVALID_ARGUMENT{field}` for the first invalid limit.
    pub fn check(&self) -> Result<()> {
        let all = [
            ("maxDepth", self.max_depth),
            ("maxActive", self.max_active),
            ("maxTasks", self.max_tasks),
            ("taskTtlHours", self.task_ttl_hours),
            ("resultMaxTokens", self.result_max_tokens),
        ];
        match all.into_iter().zip(MAX_LIMITS).find(|((_, limit), most)| !(1..=*most).contains(limit)) {
            None => Ok(()),
            Some(((name, _), most)) => {
                let message = format!("delegation.{name} must be a whole number from 1 to {most}");
                Err(Error::new(Code::InvalidArgument, message).with("field", name))
            }
        }
    }
}

/// Permission to delegate, with the sources of definitions and launchers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct DelegationSpec {
    /// Absolute workspace whose definitions apply.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub workspace: PathBuf,
    /// Home of the owner, whose definitions apply too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub home: Option<PathBuf>,
    /// Absolute path of the config file; if absent, tasks have none either.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub config: Option<PathBuf>,
    /// Absolute path of the user's own config file, if `config` is a project's on top of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub user_config: Option<PathBuf>,
    /// `--agents`: definitions, as JSON text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agents: Option<String>,
    /// Limits of the tasks.
    #[serde(flatten)]
    pub limits: TaskLimits,
    /// SHA-256 of the agent's token for tasks, in hex. The daemon creates it and
    /// ignores a client's value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_hash: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_whole_numbers_in_bounds_and_have_defaults() {
        let limits: TaskLimits = serde_json::from_str(r#"{"maxDepth":2}"#).unwrap();
        assert_eq!(limits, TaskLimits { max_depth: 2, ..TaskLimits::default() });
        limits.check().unwrap();
        let error = TaskLimits { max_active: 0, ..limits }.check().unwrap_err();
        assert_eq!((error.code, &error.details["field"]), (Code::InvalidArgument, &"maxActive".into()));
        assert!(TaskLimits { task_ttl_hours: u32::MAX, ..limits }.check().is_err());
    }
}
