//! `task list`: tasks, the oldest first.

use clap::Args;
use subagent_protocol::api::TaskStatus;

use super::one_task::{asked, submitter};
use crate::client::{ApiRequest, RequestPath, items};
use crate::command_line::flags::{CwdFlag, JsonFlag};
use crate::commands::targets::has_state;
use crate::context::{CliContext, present};
use crate::failure::{Failure, Result};
use crate::output::{CliOutcome, text};

/// List tasks, the oldest first
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent task list
  subagent task list --parent w_0123456789 --status running --json")]
pub(crate) struct TaskListArgs {
    /// Only those of this worker
    #[arg(long, value_name = "WORKER")]
    pub(crate) parent: Option<String>,
    /// Only those in the tree of this worker, which is no task itself
    #[arg(long, value_name = "WORKER")]
    pub(crate) root: Option<String>,
    /// Only those that are as far as one of these, separated by commas, as running,queued or completed
    #[arg(long, value_name = "STATUS")]
    pub(crate) status: Option<String>,
    /// Those that are archived: kept, but hidden
    #[arg(long)]
    pub(crate) archived: bool,
    /// All of them, also those that are archived or not inspectable
    #[arg(long, conflicts_with = "archived")]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) cwd: CwdFlag,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

pub(super) fn run(args: TaskListArgs, context: &CliContext) -> Result<CliOutcome> {
    // Views have the word of turns.
    let status = args.status.map(|words| words.replace("canceled", TaskStatus::Cancelled.as_str()));
    let unknown = |word: &&str| TaskStatus::parse(word.trim()).is_none();
    if let Some(status) = status.as_deref().and_then(|words| words.split(',').find(unknown)) {
        let known: Vec<_> = TaskStatus::ALL.iter().map(|known| known.as_str()).collect();
        let known = known.join(", ");
        let message = format!("--status {status} is not one of {known}");
        return Err(Failure::argument(message).with("flag", "--status").with("status", status));
    }
    let submitter = submitter(args.cwd, context);
    let workspace = submitter.workspace()?;
    let data = if has_state(&workspace) {
        let query = RequestPath::new("/v1/tasks")
            .with("parent", present(args.parent).as_deref())
            .with("root", present(args.root).as_deref())
            .with("status", status.as_deref())
            .with("archived", args.archived.then_some("true"))
            .with("all", args.all.then_some("true"));
        asked(&submitter, ApiRequest::get(query))?
    } else {
        serde_json::json!({"items": [], "count": 0})
    };
    let lines = text::rows(&data, &["taskId", "status", "name", "agent", "description"], "");
    let prunable = args.archived && !items(&data).is_empty();
    let listed = CliOutcome::list("task.listed", data, lines, "(no tasks)");
    Ok(match prunable {
        true => listed.with_note("`subagent task prune` removes those of them that have ended"),
        false => listed,
    })
}
