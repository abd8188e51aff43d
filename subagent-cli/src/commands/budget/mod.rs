//! `budget show`, `budget set`, and what flags say of budgets.

mod set;
mod show;

use clap::Subcommand;
use serde_json::{Value, json};
use subagent_protocol::api::ControllerChoice;
use subagent_protocol::budget::{LimitsChange, OnLimit, OnUnknown};

use crate::client::{ApiRequest, DaemonClient, segment};
use crate::command_line::flags::budget::BudgetFlags;
use crate::context::CliContext;
use crate::failure::{Failure, Result};
use crate::input::InputObject;
use crate::output::{CliOutcome, text};

/// `subagent budget ...`
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum BudgetCommand {
    Show(show::BudgetShowArgs),
    Set(set::BudgetSetArgs),
}

impl BudgetCommand {
    pub(crate) fn run(self, context: &CliContext) -> Result<CliOutcome> {
        match self {
            Self::Show(args) => show::run(args, context),
            Self::Set(args) => set::run(args, context),
        }
    }
}

/// The columns for people.
const COLUMNS: [&str; 4] = ["turns", "wallTime", "tokens", "cost"];

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

/// The error of a workspace where nothing has been done yet.
fn no_controller(choice: &ControllerChoice) -> Failure {
    Failure::new(subagent_protocol::Code::ControllerNotFound, "this workspace has no controller yet")
        .with("workspaceKey", choice.workspace_key.as_str())
        .recommend("run `subagent controller init` in the workspace")
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
