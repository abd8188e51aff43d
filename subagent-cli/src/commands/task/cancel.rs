//! `task cancel`: cancels a task and those below it.

use clap::Args;
use subagent_protocol::api::CancelTask;

use super::one_task::{OneTaskArgs, asked, named, submitter};
use crate::client::{ApiRequest, segment};
use crate::context::{CliContext, present};
use crate::failure::Result;
use crate::output::{CliOutcome, text};

/// Cancel a task, and those below it
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  subagent task cancel 'Test Runner' --reason 'not needed any more'")]
pub(crate) struct TaskCancelArgs {
    /// Why
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
    #[command(flatten)]
    pub(crate) one: OneTaskArgs,
}

pub(super) fn run(args: TaskCancelArgs, context: &CliContext) -> Result<CliOutcome> {
    let submitter = submitter(args.one.cwd, context);
    let path = format!("/v1/tasks/{}/cancel", segment(named(&args.one.task, &submitter)?));
    let request = CancelTask { reason: present(args.reason) };
    let data = asked(&submitter, ApiRequest::change(path, &request)?)?;
    let lines = text::fields(&data, &["taskId", "name", "status"]);
    Ok(CliOutcome::report("task.cancelled", data, lines))
}
