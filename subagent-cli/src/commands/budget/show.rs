//! `budget show`: what workers have used, and what they may use.

use clap::Args;
use serde_json::Value;
use subagent_protocol::api::WorkerList;

use super::{lines, no_controller};
use crate::client::{ApiRequest, DaemonClient, RequestPath, block_on, segment};
use crate::command_line::flags::{ControllerFlags, JsonFlag};
use crate::commands::targets::selected::WorkerHead;
use crate::commands::targets::{has_state, named_worker};
use crate::context::{CliContext, present};
use crate::controller;
use crate::failure::Result;
use crate::output::terminal::OutputTerminal;
use crate::output::{CliOutcome, OutputFormat, json};

/// Show what a controller's workers have used, and what they may use
///
/// What agents do not report is not known, and shown as such: with the number of turns that it is missing of.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent budget show
  subagent budget show --worker-id w_0123456789 --json")]
pub(crate) struct BudgetShowArgs {
    /// Only this worker's
    #[arg(long, value_name = "ID")]
    pub(crate) worker_id: Option<String>,
    #[command(flatten)]
    pub(crate) which: ControllerFlags,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

pub(super) fn run(args: BudgetShowArgs, context: &CliContext) -> Result<CliOutcome> {
    let workspace = context.workspace(args.which.cwd.as_deref())?;
    let worker = present(args.worker_id);
    let path = match &worker {
        Some(worker) => {
            let worker = named_worker(worker, &workspace)?;
            RequestPath::new(format!("/v1/workers/{}/budget", segment(worker)))
        }
        None => {
            let choice = controller::choice(args.which.controller_id.as_deref(), &workspace);
            if !has_state(&workspace) {
                return Err(no_controller(&choice));
            }
            RequestPath::new("/v1/budgets")
                .with("controllerId", choice.controller_id.as_deref())
                .with("hintedControllerId", choice.hinted_controller_id.as_deref())
                .with("workspaceKey", Some(&choice.workspace_key))
        }
    };
    let mut client = DaemonClient::new(context, &workspace);
    let is_seen = context.format == OutputFormat::Text && OutputTerminal::of_stdout().is_some();
    let data = block_on(async move {
        let mut data = client.ask(&ApiRequest::get(path)).await?;
        if is_seen {
            name_workers(&mut client, &mut data).await?;
        }
        Ok(data)
    })?;
    let shown = lines(&data)?;
    Ok(CliOutcome::report("budget.shown", data, shown))
}

/// Adds the names that people know workers by.
async fn name_workers(client: &mut DaemonClient, data: &mut Value) -> Result<()> {
    let listed: WorkerList = client.ask_for(&ApiRequest::get("/v1/workers?all=true")).await?;
    let add_name = |budget: &mut Value| {
        let id = WorkerHead::of(budget).worker_id;
        let known = listed.items.iter().find(|worker| Some(worker.worker_id.as_str()) == id);
        if let Some(worker) = known {
            json::extend(budget, [("name", worker.name.as_str().into())]);
        }
    };
    match data.get_mut("workers").and_then(Value::as_array_mut) {
        Some(workers) => workers.iter_mut().for_each(add_name),
        None => add_name(data),
    }
    Ok(())
}
