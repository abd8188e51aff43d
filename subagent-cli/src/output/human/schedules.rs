//! Schedules: when they fire, what they start, and why one is paused.

use serde_json::Value;

use super::usual::text;
use super::view::{PageRenderer, items, shown as value, word};
use crate::output::style::Style;
use crate::output::table::Table;

/// Shows the data of `schedule list`.
pub(super) fn listed(view: &mut PageRenderer, data: &Value) -> Option<()> {
    let items = items(data).filter(|items| !items.is_empty())?;
    let mut table = Table::new(&["NAME", "STATE", "NEXT", "WHEN", "WHAT", "LAST", "ERROR", "TIMEZONE"]);
    for item in items {
        let (style, state) = state(item);
        let (next, last) = (next(view, item), word(&item["lastFiring"], "status").replace('_', " "));
        table.row([
            (Style::Strong, word(item, "name")),
            (style, &state),
            (Style::Plain, &next),
            (Style::Plain, &when(&item["when"]).unwrap_or_default()),
            (Style::Plain, &work(&item["work"]).unwrap_or_default()),
            (Style::of_state(word(&item["lastFiring"], "status")), &last),
            (Style::Bad, &text(&item["error"])),
            (Style::Dim, word(item, "timezone")),
        ]);
    }
    view.put(&table);
    Some(())
}

/// `schedule show`, and what a change has made of it.
pub(super) fn shown(view: &mut PageRenderer, data: &Value) -> Option<()> {
    let name = data["name"].as_str()?;
    let (style, state) = state(data);
    view.page.word(Style::Strong, name).plain("  ").word(style, &state).end();
    let firing = &data["lastFiring"];
    let last = [word(firing, "status").replace('_', " "), view.ago(&firing["at"])].join("  ");
    let when = when(&data["when"]).map(|when| format!("{when} ({})", word(data, "timezone")));
    let failures = format!("{} of {}", value(&data["failures"]), value(&data["maxFailures"]));
    view.facts(&[
        ("when", Style::Plain, when.unwrap_or_default()),
        ("next", Style::Plain, next(view, data)),
        ("what", Style::Plain, work(&data["work"]).unwrap_or_default()),
        ("if missed", Style::Plain, word(data, "missed").replace('_', " ")),
        ("if it still runs", Style::Plain, word(data, "overlap").replace('_', " ")),
        ("last", Style::Plain, last.trim().to_owned()),
        ("failures", Style::Plain, failures),
        ("error", Style::Bad, text(&data["error"])),
    ]);
    if data["paused"].is_string() {
        view.next("Resume it:", &format!("subagent schedule resume {name}"));
    }
    Some(())
}

/// Shows the data of `schedule rm`.
pub(super) fn removed(view: &mut PageRenderer, data: &Value) -> Option<()> {
    view.page.word(Style::Strong, data["name"].as_str()?).plain("  removed").end();
    Some(())
}

fn state(item: &Value) -> (Style, String) {
    match item["paused"].as_str() {
        Some(reason) => (Style::Attention, format!("paused ({})", reason.replace('_', " "))),
        None => (Style::Good, "active".to_owned()),
    }
}

fn next(view: &PageRenderer, item: &Value) -> String {
    match view.left(&item["nextAt"]) {
        left if left.is_empty() => left,
        left => format!("in {left}"),
    }
}

/// When a schedule fires; `None` for a form that is unknown here.
#[must_use]
pub fn when(when: &Value) -> Option<String> {
    match (when["cron"].as_str(), when["everySeconds"].as_u64(), when["at"].as_str()) {
        (Some(line), ..) => Some(format!("cron {line}")),
        (_, Some(seconds), _) => Some(format!("every {seconds}s")),
        (.., Some(time)) => Some(format!("at {time}")),
        _ => None,
    }
}

/// What a schedule starts or sends; `None` for a form that is unknown here.
#[must_use]
pub fn work(work: &Value) -> Option<String> {
    let (task, send) = (&work["task"], &work["send"]);
    let agent = task["agent"].as_str().or_else(|| task["manager"]["launcher"].as_str()).unwrap_or("default");
    match (task["prompt"].as_str(), send["worker"].as_str()) {
        (Some(prompt), _) => Some(format!("task for {agent}: {prompt}")),
        (_, Some(worker)) => Some(format!("to {worker}: {}", word(send, "text"))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::output::human::{now, report};
    use crate::output::terminal::Terminal;

    const PLAIN: Terminal = Terminal { width: 80, colour: false };

    #[test]
    fn a_schedule_says_when_it_fires_next_and_why_it_is_paused() {
        let mut next = now();
        next.0 += 7_205_000;
        let schedule = json!({
            "name": "nightly", "when": {"everySeconds": 60}, "timezone": "UTC", "nextAt": next,
            "work": {"send": {"worker": "codex-1", "text": "go on"}}, "failures": 0, "maxFailures": 3,
            "missed": "skip", "overlap": "queue", "paused": null, "error": null, "lastFiring": null,
        });
        let text = report("schedule.shown", &schedule, "", PLAIN);
        assert!(text.starts_with("nightly  active\n  when "), "{text}");
        for part in ["every 60s (UTC)", "in 2h", "to codex-1: go on", "0 of 3"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let mut paused = schedule.clone();
        (paused["paused"], paused["nextAt"]) = ("worker_gone".into(), Value::Null);
        let text = report("schedule.paused", &paused, "", PLAIN);
        assert!(
            text.contains("paused (worker gone)") && text.contains("subagent schedule resume nightly"),
            "{text}"
        );
        let text = report("schedule.listed", &json!({"items": [schedule, paused]}), "", PLAIN);
        assert!(text.starts_with("NAME ") && text.contains("in 2h") && !text.contains('{'), "{text}");
    }
}
