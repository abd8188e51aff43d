//! `budget show`, `budget set`, and what flags say of budgets.

use serde_json::{Value, json};
use subagent_protocol::api::{ChangeControllerBudget, ControllerChoice};
use subagent_protocol::budget::{LimitsChange, OnLimit, OnUnknown};

use crate::args::budgets::{BudgetCommand, BudgetFlags, BudgetSet, BudgetShow};
use crate::client::{ApiRequest, DaemonClient, RequestPath, block_on, segment};
use crate::commands::targets::{has_state, named_worker};
use crate::context::{CliContext, present};
use crate::controller;
use crate::failure::{Failure, Result};
use crate::input::InputObject;
use crate::output::terminal::Terminal;
use crate::output::{CliOutcome, OutputFormat, text};

/// The columns for people.
const COLUMNS: [&str; 4] = ["turns", "wallTime", "tokens", "cost"];

pub(crate) fn run(command: BudgetCommand, context: &CliContext) -> Result<CliOutcome> {
    match command {
        BudgetCommand::Show(args) => show(args, context),
        BudgetCommand::Set(args) => set(args, context),
    }
}

/// What flags and the key `budget` of `--input` say.
///
/// # Errors
/// `INVALID_INPUT{field}` for a key that is no budget.
pub(crate) fn typed(flags: BudgetFlags, input: &InputObject) -> Result<LimitsChange> {
    if let Some(given) = input.object("budget") {
        return serde_json::from_value(given.into()).map_err(|error| {
            Failure::input(format!("\"budget\" in --input: {error}")).with("field", "budget")
        });
    }
    Ok(LimitsChange {
        turns: flags.max_turns.map(|limit| limit.0),
        wall_time_ms: flags.max_wall_time.map(|limit| limit.0),
        tokens: flags.max_tokens.map(|limit| limit.0),
        cost: flags.max_cost.map(|limit| limit.0),
        on_limit: flags.on_budget.as_deref().and_then(OnLimit::parse),
        on_unknown: flags.on_unknown.as_deref().and_then(OnUnknown::parse),
    })
}

/// Changes what a worker may use, and gives its budget.
pub(crate) async fn change_worker(
    client: &mut DaemonClient,
    worker: &str,
    change: &LimitsChange,
) -> Result<Value> {
    client.ask(&ApiRequest::change(format!("/v1/workers/{}/budget", segment(worker)), change)?).await
}

fn show(args: BudgetShow, context: &CliContext) -> Result<CliOutcome> {
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
    let is_seen = context.format == OutputFormat::Text && Terminal::of_stdout().is_some();
    let data = block_on(async move {
        let mut data = client.ask(&ApiRequest::get(path)).await?;
        if is_seen {
            name_workers(&mut client, &mut data).await?;
        }
        Ok(data)
    })?;
    let shown = lines(&data);
    Ok(CliOutcome::report("budget.shown", data, shown))
}

/// Adds the names that people know workers by.
async fn name_workers(client: &mut DaemonClient, data: &mut Value) -> Result<()> {
    let listed: Value = client.ask(&ApiRequest::get("/v1/workers?all=true")).await?;
    let name = |id: &Value| {
        let known = listed["items"].as_array().into_iter().flatten();
        known.clone().find(|worker| worker["workerId"] == *id).map(|worker| worker["name"].clone())
    };
    if let Some(name) = name(&data["workerId"]) {
        data["name"] = name;
    }
    for worker in data["workers"].as_array_mut().into_iter().flatten() {
        if let Some(name) = name(&worker["workerId"]) {
            worker["name"] = name;
        }
    }
    Ok(())
}

/// The error of a workspace where nothing has been done yet.
fn no_controller(choice: &ControllerChoice) -> Failure {
    Failure::new(subagent_protocol::Code::ControllerNotFound, "this workspace has no controller yet")
        .with("workspaceKey", choice.workspace_key.as_str())
        .recommend("run `subagent controller init` in the workspace")
}

fn set(args: BudgetSet, context: &CliContext) -> Result<CliOutcome> {
    let limits = typed(args.limits, &InputObject::default())?;
    if limits.is_empty() {
        return Err(Failure::input(
            "nothing to set: give --max-turns, --max-wall-time, --max-tokens, --max-cost, --on-budget or --on-unknown",
        ));
    }
    let workspace = context.workspace(args.which.cwd.as_deref())?;
    let choice = controller::choice(args.which.controller_id.as_deref(), &workspace);
    if !has_state(&workspace) {
        return Err(no_controller(&choice));
    }
    let ask = ApiRequest::change("/v1/budgets", &ChangeControllerBudget { choice, limits })?;
    let mut client = DaemonClient::new(context, &workspace);
    let data = block_on(async move { client.ask(&ask).await })?;
    let shown = line(&data["controllerId"], &data["controller"]);
    Ok(CliOutcome::report("budget.set", data, shown))
}

/// One line for the controller and one for each worker, or the worker's.
fn lines(data: &Value) -> String {
    if data.get("workerId").is_some() {
        return line(&data["workerId"], data);
    }
    let mut lines = vec![line(&data["controllerId"], &data["controller"])];
    let workers = data["workers"].as_array().into_iter().flatten();
    lines.extend(workers.map(|worker| line(&worker["workerId"], worker)));
    lines.join("\n")
}

fn line(id: &Value, budget: &Value) -> String {
    let mut row = json!({ "id": id });
    for column in COLUMNS {
        let used = &budget[column];
        let word = |key: &str| text::value(&used[key]);
        let amount = if used["used"].is_null() { "unknown".to_owned() } else { word("used") };
        let limit = if used["limit"].is_null() { String::new() } else { format!(" of {}", word("limit")) };
        let unit = match (column, used["unit"].as_str()) {
            ("wallTime" | "cost", Some(unit)) => format!(" {unit}"),
            _ => String::new(),
        };
        let missing = match used["unreported"].as_u64() {
            None | Some(0) => String::new(),
            Some(turns) => format!(" ({turns} unreported)"),
        };
        row[column] = format!("{column} {amount}{limit}{unit}{missing}").into();
    }
    let keys = ["id", COLUMNS[0], COLUMNS[1], COLUMNS[2], COLUMNS[3]];
    text::rows(&json!({"items": [row]}), &keys, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_unknown_is_not_shown_as_nothing() {
        let used = |used: Value, limit: Value, unit: Value, unreported: u64| json!({"used": used, "limit": limit, "unit": unit, "unreported": unreported});
        let data = json!({
            "workerId": "w_1",
            "turns": used(json!(3), json!(20), json!("turns"), 0),
            "wallTime": used(json!(1.5), Value::Null, json!("seconds"), 0),
            "tokens": used(json!(240), json!(1000), json!("tokens"), 1),
            "cost": used(Value::Null, Value::Null, Value::Null, 3),
        });
        let shown = "w_1\tturns 3 of 20\twallTime 1.5 seconds\ttokens 240 of 1000 (1 unreported)\tcost unknown (3 unreported)";
        assert_eq!(lines(&data), shown);
        let both = json!({"controllerId": "ctl_1", "controller": data, "workers": [data]});
        assert_eq!(lines(&both), format!("{}\n{shown}", shown.replace("w_1", "ctl_1")));
    }
}
