//! Budgets: what was used, and of what limit.

use serde_json::Value;

use super::view::{PageRenderer, named, shown, word};
use crate::output::ago::elapsed;
use crate::output::style::Style;
use crate::output::table::Table;

/// `budget show`: the controller and its workers, or one worker.
pub(super) fn shown_budget(view: &mut PageRenderer, data: &Value) -> Option<()> {
    let mut table = Table::new(&["WHO", "TURNS", "TIME", "TOKENS", "COST"]);
    match data["controllerId"].as_str().filter(|_| data["controller"].is_object()) {
        Some(controller) => row(&mut table, controller, &data["controller"]),
        None => {
            data["workerId"].as_str()?;
            row(&mut table, named(data), data);
        }
    }
    for worker in data["workers"].as_array().into_iter().flatten() {
        row(&mut table, named(worker), worker);
    }
    view.put(&table);
    let of = if data["controller"].is_object() { &data["controller"] } else { data };
    rules(view, of);
    Some(())
}

/// `budget set`: what the controller may use now.
pub(super) fn set(view: &mut PageRenderer, data: &Value) -> Option<()> {
    let mut table = Table::new(&["WHO", "TURNS", "TIME", "TOKENS", "COST"]);
    row(&mut table, data["controllerId"].as_str()?, &data["controller"]);
    view.put(&table);
    rules(view, &data["controller"]);
    Some(())
}

/// What happens at a limit.
fn rules(view: &mut PageRenderer, budget: &Value) {
    view.facts(&[
        ("at a limit", Style::Plain, word(budget, "onLimit").to_owned()),
        ("if unreported", Style::Plain, word(budget, "onUnknown").to_owned()),
    ]);
}

fn row(table: &mut Table, who: &str, budget: &Value) {
    let (turns, time) = (amount(&budget["turns"], shown), amount(&budget["wallTime"], seconds));
    let (tokens, cost) = (amount(&budget["tokens"], shown), amount(&budget["cost"], shown));
    let cost = match budget["cost"]["unit"].as_str() {
        Some(unit) if !cost.is_empty() => format!("{cost} {unit}"),
        _ => cost,
    };
    table.row([
        (Style::Strong, who),
        (style(&budget["turns"]), &turns),
        (style(&budget["wallTime"]), &time),
        (style(&budget["tokens"]), &tokens),
        (style(&budget["cost"]), &cost),
    ]);
}

/// `3 of 20`. What is not reported is unknown, and is not shown as nothing.
fn amount(of: &Value, number: fn(&Value) -> String) -> String {
    let used = if of["used"].is_null() { "unknown".to_owned() } else { number(&of["used"]) };
    match of["limit"].is_null() {
        true => used,
        false => format!("{used} of {}", number(&of["limit"])),
    }
}

fn seconds(value: &Value) -> String {
    let time = value.as_f64().and_then(|seconds| std::time::Duration::try_from_secs_f64(seconds).ok());
    time.map_or_else(|| shown(value), elapsed)
}

/// A limit that is used up stands out, and so does a use that is not known.
fn style(of: &Value) -> Style {
    match (of["used"].as_f64(), of["limit"].as_f64()) {
        (Some(used), Some(limit)) if used >= limit => Style::Bad,
        (None, Some(_)) => Style::Attention,
        (None, None) => Style::Dim,
        _ => Style::Plain,
    }
}
