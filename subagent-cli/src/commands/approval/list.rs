//! `approval list`: the inbox of all workers.

use clap::Args;
use serde_json::{Value, json};
use subagent_protocol::api::{Inbox, InboxItem};
use subagent_protocol::tags::Selector;

use crate::client::{ApiRequest, DaemonClient, RequestPath, block_on, view};
use crate::command_line::flags::{CwdFlag, JsonFlag, SelectorFlag};
use crate::commands::targets::{has_state, named_worker};
use crate::context::{CliContext, present};
use crate::failure::{Failure, Result};
use crate::output::rule::{describe_rule, path_of};
use crate::output::{CliOutcome, text};

/// List the open questions of agents, the oldest first
///
/// Permission requests (see approve) and elicitations (see answer) of all workers of the workspace:
/// who asks, what, since when, what happens without an answer, and for which rule it is asked.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent approval list
  subagent approval list -l job=review --json")]
pub(crate) struct ApprovalListArgs {
    /// Only what this worker asks; can be repeated
    #[arg(long, value_name = "ID")]
    pub(crate) worker_id: Vec<String>,
    /// Only what this controller's workers ask
    #[arg(long, value_name = "ID", alias = "controller")]
    pub(crate) controller_id: Option<String>,
    #[command(flatten)]
    pub(crate) selector: SelectorFlag,
    #[command(flatten)]
    pub(crate) cwd: CwdFlag,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

pub(super) fn run(args: &ApprovalListArgs, context: &CliContext) -> Result<CliOutcome> {
    if let Some(selector) = &args.selector.selector {
        Selector::parse(selector)?;
    }
    let workspace = context.workspace(args.cwd.cwd.as_deref())?;
    let named: Vec<&str> = args.worker_id.iter().map(String::as_str).collect();
    for worker in &named {
        named_worker(worker, &workspace)?;
        if worker.contains(',') {
            return Err(
                Failure::argument(format!("{worker:?} is not the id of a worker")).with("workerId", *worker)
            );
        }
    }
    let named = Some(named.join(",")).filter(|named| !named.is_empty());
    let data = if has_state(&workspace) {
        let path = RequestPath::new("/v1/approvals")
            .with("workerId", named.as_deref())
            .with("controllerId", present(args.controller_id.clone()).as_deref())
            .with("selector", args.selector.selector.as_deref());
        let mut client = DaemonClient::new(context, &workspace);
        block_on(async move { client.ask(&ApiRequest::get(path)).await })?
    } else {
        json!({"items": [], "count": 0})
    };
    let inbox: Inbox = view(&data)?;
    let shown = inbox.items.iter().map(row).collect::<Vec<_>>().join("\n");
    Ok(CliOutcome::list("inbox.listed", data, shown, "(nothing is asked)"))
}

/// A question as a line.
fn row(item: &InboxItem) -> String {
    let deadline = match (item.deadline_at, item.on_timeout) {
        (Some(at), Some(then)) => format!("{at} {then}"),
        _ => String::new(),
    };
    let task = path_of(&item.path);
    let cells = [
        item.request_id.as_str(),
        item.worker_id.as_str(),
        task.as_ref().unwrap_or(&item.label),
        item.kind.as_str(),
        &item.subject,
        &item.created_at.to_string(),
        &deadline,
        &describe_rule(item.rule.as_ref().unwrap_or(&Value::Null)),
    ];
    cells.map(text::plain).join("\t")
}
