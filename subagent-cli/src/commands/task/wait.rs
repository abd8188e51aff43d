//! `task wait`: waits for the end of a task.

use clap::Args;
use subagent_protocol::Code;
use tokio::time::Instant;

use super::awaited::{self, OnQuestion, TaskWaitEnd};
use super::one_task::{OneTaskArgs, named, submitter, value};
use crate::client::{TaskWait as Wait, block_on};
use crate::command_line::numbers::time_or_seconds;
use crate::commands::waiting::status_line;
use crate::context::CliContext;
use crate::failure::Result;
use crate::output::{CliOutcome, text};

/// Wait for the end of a task
///
/// A question of the task, or of one below it, is shown on stderr with the command that answers it.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent task wait 'Test Runner'
  subagent task wait w_0123456789 --timeout 10m --json")]
pub(crate) struct TaskWaitArgs {
    /// How long to wait, as 90s, 10m, 2h; 0 for no limit
    #[arg(
        long,
        alias = "timeout-seconds",
        value_name = "TIME",
        default_value = "0",
        value_parser = time_or_seconds
    )]
    pub(crate) timeout: f64,
    /// Exit with 15 at the first question, also of a task below; the task goes on
    #[arg(long)]
    pub(crate) no_wait_for_answers: bool,
    /// At a terminal: say which command answers instead of asking
    #[arg(long)]
    pub(crate) no_ask: bool,
    #[command(flatten)]
    pub(crate) one: OneTaskArgs,
}

pub(super) fn run(args: &TaskWaitArgs, context: &CliContext) -> Result<CliOutcome> {
    let submitter = submitter(args.one.cwd.clone(), context);
    let task = named(&args.one.task, &submitter)?;
    // What is too long to be added to a point in time is no limit.
    let time = std::time::Duration::try_from_secs_f64(args.timeout).ok().filter(|time| !time.is_zero());
    let deadline = time.and_then(|time| Instant::now().checked_add(time));
    let mut client = submitter.client()?;
    let end = Wait::new(task, submitter.token(), deadline);
    let waited = block_on(async {
        let on_question = OnQuestion::of(context, args.no_wait_for_answers, !args.no_ask);
        awaited::wait(&submitter, &mut client, end, on_question).await
    });
    let waited = waited.map_err(|failure| match failure.is(Code::WaitTimeout) {
        true => failure.with("timeoutSeconds", args.timeout),
        false => failure,
    })?;
    let shown = match waited {
        None => status_line::leave(&format!("task wait {}", args.one.task)),
        Some(TaskWaitEnd::Ended(shown)) => shown,
        Some(TaskWaitEnd::NeedsAnswer(shown, questions)) => return awaited::needs_answer(&shown, questions),
    };
    let data = value(&shown)?;
    let lines = text::fields(&data, &["taskId", "name", "status"]);
    Ok(CliOutcome::report("task.waited", data, lines))
}
