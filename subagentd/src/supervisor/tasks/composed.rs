//! What the worker of a task is made of.

use serde_json::{Value, json};
use subagent_protocol::api::{ControllerChoice, RESULT_TOKENS, RunTask, StartWorker, TaskMode, TaskPlace};
use subagent_protocol::{Code, Error, Result};

use super::super::environment::Kept;
use super::super::spec::Spec;
use crate::store::WorkerRow;

/// A worker that is to be started for a task.
pub(super) struct Composed {
    pub(super) request: StartWorker,
    pub(super) terms: Value,
    pub(super) agent: Option<String>,
}

fn terms(request: &RunTask) -> Value {
    let background = request.mode == Some(TaskMode::Background);
    json!({
        "maxSteps": request.overrides.max_steps.unwrap_or(20), "background": background,
        "timeoutMs": request.overrides.timeout_ms.unwrap_or(if background { 0 } else { 300_000 }),
        "inspectable": true, "resultMaxTokens": RESULT_TOKENS,
    })
}

pub(super) fn for_parent(row: &WorkerRow, spec: &Spec, kept: &Kept, request: &RunTask) -> Result<Composed> {
    let spec = spec.clone();
    let worker = StartWorker {
        choice: ControllerChoice {
            controller_id: Some(row.controller_id.to_string()),
            hinted_controller_id: None,
            workspace_key: String::new(),
        },
        launcher: spec.launcher,
        role: row.role.clone(),
        cwd: row.cwd.clone().into(),
        label: String::new(),
        env: kept.variables.clone(),
        umask: spec.umask,
        nofile: spec.nofile,
        debug_mode: false,
        mcp_servers: kept.mcp_servers.clone(),
        additional_directories: spec.additional_directories,
        options: spec.options,
        resume: None,
        idle_timeout_ms: None,
        queue_limit: spec.queue_limit,
        tags: spec.tags,
        policy: spec.policy,
        answer_time: spec.answer_time,
        budget: subagent_protocol::budget::Limits::default(),
        agent: None,
        delegation: None,
    };
    Ok(Composed { request: worker, terms: terms(request), agent: None })
}

pub(super) fn for_manager(_: &TaskPlace, _: &RunTask) -> Result<Composed> {
    Err(Error::new(Code::CapabilityNotSupported, "a manager's task cannot be composed"))
}
