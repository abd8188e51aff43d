//! Schedules and triggers: when they fire, what they start, and why one is paused.

use serde_json::Value;

use super::usual::text;
use super::view::{PageRenderer, items, shown as value, word};
use crate::output::style::Style;
use crate::output::table::Table;

/// Shows the data of `schedule list`.
pub(super) fn listed(view: &mut PageRenderer, data: &Value) -> Option<()> {
    let items = items(data).filter(|items| !items.is_empty())?;
    let mut table = Table::new(&[
        "NAME",
        "STATE",
        "NEXT",
        "BY",
        "WHEN",
        "WHAT",
        "LAST",
        "ERROR",
        "TIMEZONE",
        "DECLARED IN",
    ]);
    for item in items {
        let (style, state) = state(item);
        let (next, last) = (next(view, item), last_status(item));
        table.row([
            (Style::Strong, word(item, "name")),
            (style, &state),
            (Style::Plain, &next),
            attendant(item),
            (Style::Plain, &when(&item["when"]).unwrap_or_default()),
            (Style::Plain, &work(&item["work"]).unwrap_or_default()),
            (Style::of_state(word(&item["lastFiring"], "status")), &last),
            (Style::Bad, &text(&item["error"])),
            (Style::Dim, word(item, "timezone")),
            (Style::Dim, word(item, "declaredIn")),
        ]);
    }
    view.put(&table);
    Some(())
}

/// Writes the name and the state, and returns the name.
pub(super) fn heading<'a>(view: &mut PageRenderer, data: &'a Value) -> Option<&'a str> {
    let name = data["name"].as_str()?;
    let (style, state) = state(data);
    view.page.word(Style::Strong, name).plain("  ").word(style, &state).end();
    Some(name)
}

/// `schedule show`, and what a change has made of it.
pub(super) fn shown(view: &mut PageRenderer, data: &Value) -> Option<()> {
    let name = heading(view, data)?;
    let when = when(&data["when"]).map(|when| format!("{when} ({})", word(data, "timezone")));
    view.facts(&[
        ("when", Style::Plain, when.unwrap_or_default()),
        ("next", Style::Plain, next(view, data)),
        ("fired by", attendant(data).0, attendant(data).1.to_owned()),
        ("what", Style::Plain, work(&data["work"]).unwrap_or_default()),
        ("if missed", Style::Plain, word(data, "missed").replace('_', " ")),
        ("if it still runs", Style::Plain, word(data, "overlap").replace('_', " ")),
        ("last", Style::Plain, last(view, data)),
        ("failures", Style::Plain, failures(data)),
        ("error", Style::Bad, text(&data["error"])),
        ("declared in", Style::Plain, word(data, "declaredIn").to_owned()),
    ]);
    if data["paused"].is_string() {
        view.next("Resume it:", &format!("subagent schedule resume {name}"));
    }
    Some(())
}

/// `schedule log` and `trigger log`.
pub(super) fn logged(view: &mut PageRenderer, data: &Value) -> Option<()> {
    let items = items(data).filter(|items| !items.is_empty())?;
    let mut table = Table::new(&["FIRED", "STATE", "WORKER", "ERROR", "FOR", "LEFT OUT", "TURN"]);
    for item in items {
        let (at, status) = (view.ago(&item["at"]), word(item, "status"));
        let requested = if item["manual"] == true { "on request" } else { word(item, "occurrence") };
        let left_out = item["leftOut"].as_u64().filter(|count| *count > 0);
        table.row([
            (Style::Plain, at.as_str()),
            (Style::of_state(status), &status.replace('_', " ")),
            (Style::Strong, word(item, "workerId")),
            (Style::Bad, &text(&item["error"])),
            (Style::Plain, requested),
            (Style::Plain, &left_out.map(|count| count.to_string()).unwrap_or_default()),
            (Style::Dim, word(item, "turnId")),
        ]);
    }
    view.put(&table);
    Some(())
}

/// `schedule rm` and `trigger rm`.
pub(super) fn removed(view: &mut PageRenderer, data: &Value) -> Option<()> {
    view.page.word(Style::Strong, data["name"].as_str()?).plain("  removed").end();
    Some(())
}

pub(super) fn state(item: &Value) -> (Style, String) {
    match item["paused"].as_str() {
        Some(reason) => (Style::Attention, format!("paused ({})", reason.replace('_', " "))),
        None => (Style::Good, "active".to_owned()),
    }
}

/// The status of the newest firing, and how many times before it were missed.
fn last_status(item: &Value) -> String {
    let firing = &item["lastFiring"];
    let status = word(firing, "status").replace('_', " ");
    match firing["leftOut"].as_u64().filter(|count| *count > 0) {
        Some(count) => format!("{status} ({count} missed before)"),
        None => status,
    }
}

/// The same with the time of the firing.
pub(super) fn last(view: &PageRenderer, item: &Value) -> String {
    [last_status(item), view.ago(&item["lastFiring"]["at"])].join("  ").trim().to_owned()
}

/// Failures in a row, and how many pause it.
pub(super) fn failures(item: &Value) -> String {
    match item["maxFailures"].as_u64() {
        Some(0) => format!("{} (no limit)", value(&item["failures"])),
        _ => format!("{} of {}", value(&item["failures"]), value(&item["maxFailures"])),
    }
}

/// Who is there at its next time.
pub(super) fn attendant(item: &Value) -> (Style, &str) {
    match word(item, "attendant") {
        "unattended" => (Style::Attention, "no daemon"),
        who => (Style::Plain, who),
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
