//! The error of a task that has ended in another way than completed, with what to do next. Pure.

use subagent_protocol::api::TaskView;
use subagent_protocol::{Code, task_result};

use crate::failure::Failure;
use crate::output::advice;

/// The error, with a hint and a command unless it has its own.
pub(crate) fn failure(task: &TaskView) -> Failure {
    let id = task.task_id.as_str();
    let mut failure = match &task.error {
        Some(error) => Failure::from(error.clone()),
        None => {
            let (code, message) = task_result::why(task);
            Failure::of_code(&code, message)
        }
    };
    failure = failure.with("taskId", id).with("status", task.status.as_str());
    let (hint, command) = next(&failure);
    if advice::hint(&failure).is_none() {
        failure = failure.recommend(hint);
    }
    if advice::command(&failure).is_none() {
        failure = failure.with("recommendedCommand", format!("subagent {command}").replace("TASK", id));
    }
    failure
}

/// What to do after this error of a task, and what to type.
fn next(failure: &Failure) -> (&'static str, &'static str) {
    let is = |codes: &[Code]| codes.iter().any(|code| failure.is(*code));
    if is(&[Code::Cancelled, Code::MaxIterationsReached, Code::TimedOut, Code::ApprovalTimeout]) {
        ("continue the task with a message", "task message TASK --text 'Go on.'")
    } else if is(&[Code::BudgetExceeded]) {
        ("raise the limit, then continue the task with a message", "budget show --worker-id TASK")
    } else if is(&[Code::PolicyViolation]) {
        ("look at what the agent has done", "diff TASK")
    } else if is(&[Code::ResultSchemaNotMet]) {
        ("look at what the agent said; its prompt has to ask for the JSON of the schema", "task result TASK")
    } else {
        ("look at what the agent wrote to its log, then continue the task with a message", "logs TASK")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn task(error: &Value) -> TaskView {
        serde_json::from_value(json!({
            "taskId": "w_0123456789", "name": "a", "path": ["a"], "agent": null, "description": "d", "prompt": "p",
            "mode": "foreground", "status": "failed", "parent": null, "parentTurnId": null, "root": null, "depth": 1,
            "launcher": "demo", "model": null, "steps": 0, "toolCalls": 0, "cost": null, "tokens": null, "runs": 1,
            "error": error, "metadata": {}, "createdAt": "2026-11-21T20:29:42+00:00",
            "updatedAt": "2026-11-21T20:29:42+00:00", "startedAt": null, "completedAt": null,
        }))
        .unwrap()
    }

    #[test]
    fn each_error_says_what_to_do_and_what_to_type() {
        for (code, command) in [
            ("CANCELLED", "subagent task message w_0123456789 --text 'Go on.'"),
            ("BUDGET_EXCEEDED", "subagent budget show --worker-id w_0123456789"),
            ("POLICY_VIOLATION", "subagent diff w_0123456789"),
            ("RESULT_SCHEMA_NOT_MET", "subagent task result w_0123456789"),
            ("BACKEND_RPC_ERROR", "subagent logs w_0123456789"),
        ] {
            let failure = failure(&task(&json!({"code": code, "message": "m", "retryable": false})));
            assert_eq!((&*failure.code, failure.message.as_str()), (code, "m"));
            assert_eq!(advice::command(&failure).as_deref(), Some(command));
            assert!(advice::hint(&failure).is_some());
        }
    }

    #[test]
    fn the_advice_of_the_error_itself_stays() {
        let details =
            json!({"recommendedAction": "log in", "recommendedCommand": "subagent launcher login demo"});
        let error = json!({"code": "BACKEND_PERMISSION_DENIED", "message": "m", "retryable": false, "details": details});
        let failure = failure(&task(&error));
        assert_eq!(advice::command(&failure).as_deref(), Some("subagent launcher login demo"));
        assert_eq!(advice::hint(&failure), Some("log in"));
    }

    #[test]
    fn a_task_without_an_error_has_its_status_as_the_code() {
        let failure = failure(&task(&Value::Null));
        assert_eq!((&*failure.code, failure.message.as_str()), ("FAILED", "the task failed"));
    }
}
