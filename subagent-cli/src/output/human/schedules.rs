//! Schedules and triggers: when they fire, what they start, and why one is paused.

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
    let name = heading(view, data)?;
    let when = when(&data["when"]).map(|when| format!("{when} ({})", word(data, "timezone")));
    let facts = [
        ("when", Style::Plain, when.unwrap_or_default()),
        ("next", Style::Plain, next(view, data)),
        ("what", Style::Plain, work(&data["work"]).unwrap_or_default()),
        ("if missed", Style::Plain, word(data, "missed").replace('_', " ")),
    ];
    view.facts(&[&facts[..], &history(view, data)].concat());
    if data["paused"].is_string() {
        view.next("Resume it:", &format!("subagent schedule resume {name}"));
    }
    Some(())
}

/// `trigger list`.
pub(super) fn triggers(view: &mut PageRenderer, data: &Value) -> Option<()> {
    let items = items(data).filter(|items| !items.is_empty())?;
    let mut table = Table::new(&["NAME", "STATE", "FIRES", "WHAT", "LAST", "ERROR"]);
    for item in items {
        let (style, state) = state(item);
        let last = word(&item["lastFiring"], "status");
        table.row([
            (Style::Strong, word(item, "name")),
            (style, &state),
            (Style::Plain, &source(&item["source"]).unwrap_or_default()),
            (Style::Plain, &work(&item["work"]).unwrap_or_default()),
            (Style::of_state(last), &last.replace('_', " ")),
            (Style::Bad, &text(&item["error"])),
        ]);
    }
    view.put(&table);
    Some(())
}

/// `trigger show`, and the state after a change.
pub(super) fn trigger(view: &mut PageRenderer, data: &Value) -> Option<()> {
    let name = heading(view, data)?;
    let attendant = word(data, "attendant").to_owned();
    let facts = [
        ("fires", Style::Plain, source(&data["source"]).unwrap_or_default()),
        ("noticed by", Style::Plain, attendant),
        ("what", Style::Plain, work(&data["work"]).unwrap_or_default()),
    ];
    view.facts(&[&facts[..], &history(view, data)].concat());
    if data["paused"].is_string() {
        view.next("Resume it:", &format!("subagent trigger resume {name}"));
    } else if data["source"]["request"].is_object() {
        view.next("Fire it:", &format!("subagent trigger fire {name}"));
    }
    Some(())
}

/// `schedule rm` and `trigger rm`.
pub(super) fn removed(view: &mut PageRenderer, data: &Value) -> Option<()> {
    view.page.word(Style::Strong, data["name"].as_str()?).plain("  removed").end();
    Some(())
}

/// Writes name and state, and returns the name.
fn heading<'a>(view: &mut PageRenderer, data: &'a Value) -> Option<&'a str> {
    let name = data["name"].as_str()?;
    let (style, state) = state(data);
    view.page.word(Style::Strong, name).plain("  ").word(style, &state).end();
    Some(name)
}

/// A line of facts.
type Fact = (&'static str, Style, String);

/// Returns what schedules and triggers have in common: overlap, last firing and failures.
fn history(view: &PageRenderer, data: &Value) -> [Fact; 4] {
    let firing = &data["lastFiring"];
    let last = [word(firing, "status").replace('_', " "), view.ago(&firing["at"])].join("  ");
    let failures = format!("{} of {}", value(&data["failures"]), value(&data["maxFailures"]));
    [
        ("if it still runs", Style::Plain, word(data, "overlap").replace('_', " ")),
        ("last", Style::Plain, last.trim().to_owned()),
        ("failures", Style::Plain, failures),
        ("error", Style::Bad, text(&data["error"])),
    ]
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

/// What fires a trigger; `None` for a form that is unknown here.
#[must_use]
pub fn source(source: &Value) -> Option<String> {
    let after = &source["after"];
    match (after["worker"].as_str(), after["status"].as_str()) {
        (Some(worker), Some(status)) => Some(format!("after {worker} ({status})")),
        (Some(worker), None) => Some(format!("after {worker}")),
        _ if source["request"].is_object() => Some("requests".to_owned()),
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
