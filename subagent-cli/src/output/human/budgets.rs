//! Budgets: what was used, and of what limit.

use serde::Deserialize;
use serde_json::Value;
use subagent_protocol::budget::{BudgetView, BudgetsShown, Used, WorkerBudget};
use subagent_protocol::ids::ControllerId;

use super::view::{Named, PageRenderer, called, shown as value};
use crate::output::ago::elapsed;
use crate::output::style::Style;
use crate::output::table::Table;

/// Data of `budget.shown`, with the names that the command adds.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum ShownBudget {
    #[serde(rename_all = "camelCase")]
    Controller {
        controller_id: ControllerId,
        controller: BudgetView,
        workers: Vec<Named<WorkerBudget>>,
    },
    Worker(Named<WorkerBudget>),
}

/// `budget show`: the controller and its workers, or one worker.
pub(super) fn shown(view: &mut PageRenderer, budget: &ShownBudget) {
    match budget {
        ShownBudget::Controller { controller_id, controller, workers } => {
            let workers = workers.iter().map(|worker| (name(worker), &worker.of.budget));
            table(view, std::iter::once((controller_id.as_str(), controller)).chain(workers));
            rules(view, controller);
        }
        ShownBudget::Worker(worker) => of_worker(view, name(worker), &worker.of),
    }
}

fn name(worker: &Named<WorkerBudget>) -> &str {
    called(&worker.name, worker.of.worker_id.as_str())
}

pub(super) fn of_worker(view: &mut PageRenderer, name: &str, worker: &WorkerBudget) {
    table(view, [(name, &worker.budget)]);
    rules(view, &worker.budget);
}

/// `budget set`: what the controller may use now.
pub(super) fn set(view: &mut PageRenderer, budgets: &BudgetsShown) {
    table(view, [(budgets.controller_id.as_str(), &budgets.controller)]);
    rules(view, &budgets.controller);
}

/// What happens at a limit.
fn rules(view: &mut PageRenderer, budget: &BudgetView) {
    view.facts(&[
        ("at a limit", Style::Plain, budget.on_limit.to_string()),
        ("if unreported", Style::Plain, budget.on_unknown.to_string()),
    ]);
}

fn table<'a>(view: &mut PageRenderer, budgets: impl IntoIterator<Item = (&'a str, &'a BudgetView)>) {
    let mut table = Table::new(&["WHO", "TURNS", "TIME", "TOKENS", "COST"]);
    for (who, budget) in budgets {
        let mut cost = amount(&budget.cost, value);
        if let Some(unit) = &budget.cost.unit {
            cost = format!("{cost} {unit}");
        }
        table.row([
            (Style::Strong, who),
            (style(&budget.turns), &amount(&budget.turns, value)),
            (style(&budget.wall_time), &amount(&budget.wall_time, seconds)),
            (style(&budget.tokens), &amount(&budget.tokens, value)),
            (style(&budget.cost), &cost),
        ]);
    }
    view.put(&table);
}

/// `3 of 20`. What is not reported is unknown, and is not shown as nothing.
fn amount(of: &Used, number: fn(&Value) -> String) -> String {
    let used = if of.used.is_null() { "unknown".to_owned() } else { number(&of.used) };
    match of.limit.is_null() {
        true => used,
        false => format!("{used} of {}", number(&of.limit)),
    }
}

fn seconds(number: &Value) -> String {
    let time = number.as_f64().and_then(|seconds| std::time::Duration::try_from_secs_f64(seconds).ok());
    time.map_or_else(|| value(number), elapsed)
}

/// A limit that is used up stands out, and so does a use that is not known.
fn style(of: &Used) -> Style {
    match (of.used.as_f64(), of.limit.as_f64()) {
        (Some(used), Some(limit)) if used >= limit => Style::Bad,
        (None, Some(_)) => Style::Attention,
        (None, None) => Style::Dim,
        _ => Style::Plain,
    }
}
