//! `task show`: one task.

use clap::Args;

use super::one_task::{OneTaskArgs, shown};
use crate::context::CliContext;
use crate::failure::Result;
use crate::output::{CliOutcome, text};

/// Show one task
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  subagent task show 'Test Runner' --json")]
pub(crate) struct TaskShowArgs {
    #[command(flatten)]
    pub(crate) one: OneTaskArgs,
}

/// The lines of one task.
const KEYS: &[&str] = &[
    "taskId",
    "name",
    "path",
    "agent",
    "description",
    "mode",
    "status",
    "parent",
    "parentTurnId",
    "root",
    "depth",
    "launcher",
    "model",
    "steps",
    "toolCalls",
    "tokens",
    "cost",
    "runs",
    "createdAt",
    "updatedAt",
    "startedAt",
    "completedAt",
    "archivedAt",
    "error",
    "metadata",
];

pub(super) fn run(args: &TaskShowArgs, context: &CliContext) -> Result<CliOutcome> {
    let (data, _) = shown(&args.one, false, context)?;
    let lines = text::fields(&data, KEYS);
    Ok(CliOutcome::report("task.shown", data, lines))
}
