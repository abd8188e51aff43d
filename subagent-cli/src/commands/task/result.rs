//! `task result`: the result of a task.

use clap::Args;
use subagent_protocol::{Code, task_result};

use super::one_task::{OneTaskArgs, shown};
use crate::context::CliContext;
use crate::failure::{Failure, Result};
use crate::output::{CliOutcome, json};

/// Print the result of a task
///
/// A long one is cut to what its caller gets. The exit code is 1 if there is none. With --full there comes behind it what
/// was said in the tasks below it that are in no list (inspectable: false).
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent task result 'Test Runner'
  subagent task result 'Test Runner' --full > result.md")]
pub(crate) struct TaskResultArgs {
    /// All of it, however long it is
    #[arg(long)]
    pub(crate) full: bool,
    #[command(flatten)]
    pub(crate) one: OneTaskArgs,
}

pub(super) fn run(args: &TaskResultArgs, context: &CliContext) -> Result<CliOutcome> {
    let (data, shown) = shown(&args.one, args.full, context)?;
    let status = shown.task.status;
    if shown.result.is_none() {
        let why = if status.is_end() { "has ended without one" } else { "has not ended" };
        let message = format!("the task {} has no result: it {why} ({})", shown.task.name, status.as_str());
        let failure =
            Failure::new(Code::InvalidWorkerState, message).with("taskId", shown.task.task_id.as_str());
        let failure = failure.with("status", status.as_str());
        return Err(if status.is_end() {
            failure
        } else {
            failure.retryable().recommend("wait for its end with `subagent task wait`")
        });
    }
    let mut data = data;
    let text = if args.full {
        task_result::full(&shown).into_owned()
    } else {
        let short = task_result::short(&shown)?.into_owned();
        json::extend(&mut data, [("result", short.clone().into())]);
        short
    };
    Ok(CliOutcome::report("task.result", data, text))
}
