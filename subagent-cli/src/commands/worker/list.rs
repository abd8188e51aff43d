//! `worker list`: the workers of a state dir, the newest first.

use clap::Args;
use serde_json::json;

use crate::client::{DaemonClient, Unreachable, block_on, daemons, into_items, items_mut};
use crate::command_line::flags::{CwdFlag, JsonFlag, SelectorFlag};
use crate::commands::targets::contract_form::without_name;
use crate::commands::targets::has_state;
use crate::commands::targets::selected::WorkerSelector;
use crate::context::{CliContext, path_value, present};
use crate::failure::Result;
use crate::output::{CliOutcome, OutputFormat, json, text};

/// List workers, the newest first
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent worker list
  subagent worker list --controller-id ctl_0123456789 --json
  subagent worker list -l job=review
  subagent worker list --all-workspaces")]
pub(crate) struct WorkerListArgs {
    /// Only workers of this controller
    #[arg(long, value_name = "ID")]
    pub(crate) controller_id: Option<String>,
    #[command(flatten)]
    pub(crate) selector: SelectorFlag,
    /// The workers of all daemons that run (see daemon list)
    #[arg(long, conflicts_with = "cwd")]
    pub(crate) all_workspaces: bool,
    /// Also those of tasks that are not inspectable
    #[arg(long)]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) cwd: CwdFlag,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

pub(super) fn run(args: &WorkerListArgs, context: &CliContext) -> Result<CliOutcome> {
    if args.all_workspaces {
        return all(
            WorkerSelector {
                controller_id: present(args.controller_id.clone()),
                selector: args.selector.selector.clone(),
            },
            args.all,
            context,
        );
    }
    let workspace = context.workspace(args.cwd.cwd.as_deref())?;
    let choice = WorkerSelector {
        controller_id: present(args.controller_id.clone()),
        selector: args.selector.selector.clone(),
    };
    let ask = choice.listing(args.all)?;
    let mut data = if has_state(&workspace) {
        let mut client = DaemonClient::new(context, &workspace);
        block_on(async move { client.ask(&ask).await })?
    } else {
        let mut data = json!({"items": [], "count": 0, "controllerId": choice.controller_id});
        if let Some(selector) = &choice.selector {
            json::extend(&mut data, [("selector", selector.as_str().into())]);
        }
        data
    };
    choice.check(&data)?;
    items_mut(&mut data).iter_mut().for_each(|item| without_name(item, context));
    let shown = match context.format {
        // Only the document is printed.
        OutputFormat::Json => String::new(),
        OutputFormat::Text => text::rows(&data, &["workerId", "state", "label"], ""),
    };
    Ok(CliOutcome::list("worker.listed", data, shown, "(no workers)"))
}

/// The workers of all daemons that run. One that does not answer does not hide those of the others.
fn all(choice: WorkerSelector, hidden: bool, context: &CliContext) -> Result<CliOutcome> {
    let ask = choice.listing(hidden)?;
    let (items, unreachable) = block_on(async {
        let (found, mut unreachable) = daemons(&context.env).await;
        let mut items = Vec::new();
        for daemon in found {
            let state_dir = path_value(&daemon.info.state_dir);
            let mut client = DaemonClient::of_running(daemon.info.state_dir.clone());
            let listed = client.ask(&ask).await.and_then(|data| {
                choice.check(&data)?;
                Ok(into_items(data))
            });
            match listed {
                Ok(workers) => items.extend(workers.into_iter().map(|mut worker| {
                    json::extend(&mut worker, [("stateDir", state_dir.clone())]);
                    worker
                })),
                Err(failure) => unreachable.push(Unreachable { socket: daemon.info.socket, failure }),
            }
        }
        Ok((items, unreachable))
    })?;
    let mut data = json!({
        "count": items.len(), "items": items, "controllerId": choice.controller_id,
        "unreachable": unreachable.iter().map(Unreachable::shown).collect::<Vec<_>>(),
    });
    if let Some(selector) = choice.selector {
        json::extend(&mut data, [("selector", selector.into())]);
    }
    unreachable.iter().for_each(|one| one.warn(context));
    let shown = text::rows(&data, &["workerId", "state", "label", "stateDir"], "");
    Ok(CliOutcome::list("workers.listed", data, shown, "(no workers)"))
}
