//! One task of a worker: its address, and requests about it.

use clap::Args;
use serde::Serialize;
use serde_json::Value;
use subagent_protocol::Code;
use subagent_protocol::api::TaskShown;

use crate::client::{ApiRequest, DaemonClient, RequestPath, block_on, read, segment};
use crate::command_line::flags::{CwdFlag, JsonFlag};
use crate::commands::targets::has_state;
use crate::context::CliContext;
use crate::failure::{Failure, Result};
use crate::tasks::{TaskPlacement, TaskSubmitter};

/// One task, and where it is.
#[derive(Debug, Args)]
pub(crate) struct OneTaskArgs {
    /// Its name or id
    #[arg(value_name = "TASK")]
    pub(crate) task: String,
    #[command(flatten)]
    pub(crate) cwd: CwdFlag,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

pub(super) fn submitter(cwd: CwdFlag, context: &CliContext) -> TaskSubmitter {
    TaskSubmitter::new(context, TaskPlacement { cwd: cwd.cwd, ..TaskPlacement::default() })
}

pub(super) fn asked(submitter: &TaskSubmitter, ask: ApiRequest) -> Result<Value> {
    let mut client: DaemonClient = submitter.client()?;
    let ask = submitter.named(ask);
    block_on(async move { client.ask(&ask).await })
}

/// The task as data, and as what it is; with what was said below it, or without.
pub(super) fn shown(
    one: &OneTaskArgs,
    transcripts: bool,
    context: &CliContext,
) -> Result<(Value, TaskShown)> {
    let submitter = submitter(one.cwd.clone(), context);
    let path = format!("/v1/tasks/{}", segment(named(&one.task, &submitter)?));
    let query = RequestPath::new(&path).with("transcripts", transcripts.then_some("true"));
    let data = asked(&submitter, ApiRequest::get(query))?;
    let shown = read(data.clone())?;
    Ok((data, shown))
}

/// A task as data.
pub(crate) fn value(task: &impl Serialize) -> Result<Value> {
    serde_json::to_value(task).map_err(|error| Failure::internal(format!("cannot write a task: {error}")))
}

/// The name or id, unless there can be no such task.
pub(super) fn named<'a>(task: &'a str, submitter: &TaskSubmitter) -> Result<&'a str> {
    let message = match task.trim() {
        "" => "an empty text names no task; `subagent task list` shows them".to_owned(),
        _ if has_state(&submitter.workspace()?) => return Ok(task),
        _ => format!("there is no task {task}: nothing was started in this workspace so far"),
    };
    Err(Failure::new(Code::TaskNotFound, message)
        .with("task", task)
        .recommend("list the tasks with `subagent task list`; check --cwd and SUBAGENT_STATE_DIR"))
}
