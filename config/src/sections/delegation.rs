//! Whether agents may delegate tasks, and the limits for it: the key `delegation`. Pure.
//!
//! Unknown keys are errors: a misspelled limit must not be ignored.

use serde_json::{Map, Value};
use subagent_protocol::delegation::{MAX_LIMITS, TaskLimits};

use crate::check::{CheckResult, mismatch};
use crate::error::FieldPath;
use crate::section::Section;

const KEY: &str = "delegation";
const KEYS: [&str; 5] = ["maxDepth", "maxActive", "maxTasks", "taskTtlHours", "resultMaxTokens"];

/// Reads the key; `None` if workers may not delegate.
pub(crate) fn delegation(root: &Map<String, Value>) -> CheckResult<Option<TaskLimits>> {
    let given = match root.get(KEY) {
        None | Some(Value::Null | Value::Bool(false)) => return Ok(None),
        Some(Value::Bool(true)) => return Ok(Some(TaskLimits::default())),
        Some(Value::Object(given)) => Section::new(given, KEY),
        Some(other) => {
            return mismatch(FieldPath::Field(KEY.to_owned()), "true, false or a mapping of limits", other);
        }
    };
    given.only(&KEYS)?;
    let limit = |index: usize, default: u32| {
        let most = MAX_LIMITS[index];
        let given = given.count(KEYS[index], u64::from(most))?;
        Ok(given.and_then(|limit| u32::try_from(limit).ok()).unwrap_or(default))
    };
    let TaskLimits { max_depth, max_active, max_tasks, task_ttl_hours, result_max_tokens } =
        TaskLimits::default();
    Ok(Some(TaskLimits {
        max_depth: limit(0, max_depth)?,
        max_active: limit(1, max_active)?,
        max_tasks: limit(2, max_tasks)?,
        task_ttl_hours: limit(3, task_ttl_hours)?,
        result_max_tokens: limit(4, result_max_tokens)?,
    }))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(value: Value) -> CheckResult<Option<TaskLimits>> {
        delegation(json!({"delegation": value}).as_object().unwrap())
    }

    #[test]
    fn true_and_limits_let_agents_delegate() {
        assert_eq!(delegation(&Map::new()).unwrap(), None);
        for none in [json!(null), json!(false)] {
            assert_eq!(read(none).unwrap(), None);
        }
        for all in [json!(true), json!({}), json!({"maxDepth": null})] {
            assert_eq!(read(all).unwrap(), Some(TaskLimits::default()));
        }
        let some =
            json!({"maxDepth": 2, "maxActive": 3, "maxTasks": 4, "taskTtlHours": 5, "resultMaxTokens": 6});
        let expected =
            TaskLimits { max_depth: 2, max_active: 3, max_tasks: 4, task_ttl_hours: 5, result_max_tokens: 6 };
        assert_eq!(read(some).unwrap(), Some(expected));
    }

    #[test]
    fn what_is_wrong_is_named_and_no_key_is_overlooked() {
        for (wrong, place) in [
            (json!([]), "delegation"),
            (json!("yes"), "delegation"),
            (json!({"maxDepth": 0}), "delegation.maxDepth"),
            (json!({"maxActive": 1.5}), "delegation.maxActive"),
            (json!({"maxTasks": "5"}), "delegation.maxTasks"),
            (json!({"taskTtlHours": 100_000}), "delegation.taskTtlHours"),
            (json!({"resultMaxTokens": 0}), "delegation.resultMaxTokens"),
        ] {
            assert_eq!(read(wrong.clone()).unwrap_err().place, FieldPath::Field(place.to_owned()), "{wrong}");
        }
        let entry = FieldPath::Entry { field: "delegation".to_owned(), key: "depth".to_owned() };
        assert_eq!(read(json!({"depth": 3})).unwrap_err().place, entry);
    }
}
