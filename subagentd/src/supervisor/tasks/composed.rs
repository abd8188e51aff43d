//! What the worker of a task is made of.

use subagent_protocol::api::{ControllerChoice, RunTask, StartWorker, TaskMode, TaskPlace};
use subagent_protocol::delegation::TaskLimits;
use subagent_protocol::task_terms::TaskTerms;
use subagent_protocol::{Code, Error, Result};

use super::super::environment::Kept;
use super::super::spec::Spec;
use crate::store::WorkerRow;

/// A worker that is to be started for a task.
pub(super) struct Composed {
    pub(super) request: StartWorker,
    pub(super) terms: TaskTerms,
    pub(super) agent: Option<String>,
    pub(super) limits: TaskLimits,
}

fn terms(request: &RunTask) -> TaskTerms {
    TaskTerms { background: request.mode == Some(TaskMode::Background), ..TaskTerms::default() }
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
        delegation: spec.delegation.clone(),
    };
    let limits = spec.delegation.map(|delegation| delegation.limits).unwrap_or_default();
    Ok(Composed { request: worker, terms: terms(request), agent: None, limits })
}

pub(super) fn for_manager(_: &TaskPlace, _: &RunTask) -> Result<Composed> {
    Err(Error::new(Code::CapabilityNotSupported, "a manager's task cannot be composed"))
}
