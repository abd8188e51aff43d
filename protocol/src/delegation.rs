//! What a worker that gives work to other agents was started with: where their definitions and launchers are looked for, and
//! how many tasks there may be below it. Fixed at its start; the files that it names are read anew for each task.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::error::{Code, Error, Result};

/// How deep tasks of tasks go, where nobody says otherwise. A root is 0.
pub const DEPTH: u32 = 5;
/// How many tasks of a root run at the same time.
pub const ACTIVE: u32 = 6;
/// How many tasks a root has in all.
pub const TASKS: u32 = 100;
/// For how many hours a task that has ended can be resumed.
pub const TTL_HOURS: u32 = 24;
/// How many tokens of a result its caller gets.
pub const RESULT_TOKENS: u32 = 8_192;
/// The highest of each of these, in the same order.
pub const MOST: [u32; 5] = [100, 1_000, 100_000, 24 * 366, 1_000_000];

/// Limits of the tasks below a root.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct TaskLimits {
    /// How deep tasks of tasks go.
    pub max_depth: u32,
    /// How many run at the same time; the others wait.
    pub max_active: u32,
    /// How many there are in all.
    pub max_tasks: u32,
    /// For how many hours one that has ended can be resumed.
    pub task_ttl_hours: u32,
    /// How many tokens of a result its caller gets, where the definition of its agent says nothing.
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
    /// Checks limits that came from outside.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT{field}`.
    pub fn check(&self) -> Result<()> {
        let all = [
            ("maxDepth", self.max_depth),
            ("maxActive", self.max_active),
            ("maxTasks", self.max_tasks),
            ("taskTtlHours", self.task_ttl_hours),
            ("resultMaxTokens", self.result_max_tokens),
        ];
        match all.into_iter().zip(MOST).find(|((_, limit), most)| !(1..=*most).contains(limit)) {
            None => Ok(()),
            Some(((name, _), most)) => {
                let message = format!("delegation.{name} must be a whole number from 1 to {most}");
                Err(Error::new(Code::InvalidArgument, message).with("field", name))
            }
        }
    }
}

/// That a worker may give tasks to other agents, and what they are made of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct DelegationSpec {
    /// The workspace whose definitions count, absolute.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub workspace: PathBuf,
    /// The home of the owner, whose definitions count, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub home: Option<PathBuf>,
    /// The config file, absolute; without it there was none, and there is none for its tasks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub config: Option<PathBuf>,
    /// The user's own config file, absolute, where `config` is that of a project over it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub user_config: Option<PathBuf>,
    /// `--agents`: definitions, as JSON text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agents: Option<String>,
    /// How many tasks there may be.
    #[serde(flatten)]
    pub limits: TaskLimits,
    /// SHA-256 of the token with which its agent gives tasks, in hex. The daemon makes it; what a client says is not taken.
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
