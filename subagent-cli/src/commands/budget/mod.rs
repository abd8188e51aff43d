//! `budget show`, `budget set`, and what flags say of budgets.

mod set;
mod show;

use clap::Subcommand;
use serde::Deserialize;
use serde_json::Value;
use subagent_protocol::api::ControllerChoice;
use subagent_protocol::budget::{BudgetView, LimitsChange, OnLimit, OnUnknown, Used};

use crate::client::{ApiRequest, DaemonClient, segment, view};
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

/// The budget of a controller and of its workers, or of one worker.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum ShownBudgets {
    Controller {
        #[serde(flatten)]
        controller: ControllerBudget,
        workers: Vec<NamedBudget>,
    },
    Worker(NamedBudget),
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ControllerBudget {
    controller_id: String,
    controller: BudgetView,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct NamedBudget {
    worker_id: String,
    #[serde(flatten)]
    budget: BudgetView,
}

/// One line for the controller and one for each worker, or the worker's.
fn lines(data: &Value) -> Result<String> {
    let of_worker = |worker: &NamedBudget| line(&worker.worker_id, &worker.budget);
    Ok(match view(data)? {
        ShownBudgets::Worker(worker) => of_worker(&worker),
        ShownBudgets::Controller { controller, workers } => {
            let first = line(&controller.controller_id, &controller.controller);
            std::iter::once(first).chain(workers.iter().map(of_worker)).collect::<Vec<_>>().join("\n")
        }
    })
}

fn line(id: &str, budget: &BudgetView) -> String {
    let BudgetView { turns, wall_time, tokens, cost, .. } = budget;
    let columns = [("turns", turns), ("wallTime", wall_time), ("tokens", tokens), ("cost", cost)];
    let cells = columns.map(|(column, Used { used, limit, unit, unreported, .. })| {
        let amount = if used.is_null() { "unknown".to_owned() } else { text::value(used) };
        let limit = if limit.is_null() { String::new() } else { format!(" of {}", text::value(limit)) };
        let unit = match (column, unit) {
            ("wallTime" | "cost", Some(unit)) => format!(" {unit}"),
            _ => String::new(),
        };
        let missing = match unreported {
            0 => String::new(),
            turns => format!(" ({turns} unreported)"),
        };
        text::plain(&format!("{column} {amount}{limit}{unit}{missing}"))
    });
    format!("{}\t{}", text::plain(id), cells.join("\t"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

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
            "onLimit": "refuse",
            "onUnknown": "warn",
        });
        let shown = "w_1\tturns 3 of 20\twallTime 1.5 seconds\ttokens 240 of 1000 (1 unreported)\tcost unknown (3 unreported)";
        assert_eq!(lines(&data).unwrap(), shown);
        let both = json!({"controllerId": "ctl_1", "controller": data, "workers": [data]});
        assert_eq!(lines(&both).unwrap(), format!("{}\n{shown}", shown.replace("w_1", "ctl_1")));
    }
}
