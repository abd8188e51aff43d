//! Triggers: what fires them, what they start, and why one is paused.

use serde_json::Value;

use super::schedules::{attendant, failures, heading, last, state, work};
use super::usual::text;
use super::view::{PageRenderer, items, word};
use crate::output::style::Style;
use crate::output::table::Table;

/// Shows the data of `trigger list`.
pub(super) fn listed(view: &mut PageRenderer, data: &Value) -> Option<()> {
    let items = items(data).filter(|items| !items.is_empty())?;
    let mut table = Table::new(&["NAME", "STATE", "FIRES", "BY", "WHAT", "LAST", "ERROR", "DECLARED IN"]);
    for item in items {
        let (style, state) = state(item);
        let last = last(view, item);
        table.row([
            (Style::Strong, word(item, "name")),
            (style, &state),
            (Style::Plain, &source(&item["source"]).unwrap_or_default()),
            attendant(item),
            (Style::Plain, &work(&item["work"]).unwrap_or_default()),
            (Style::of_state(word(&item["lastFiring"], "status")), &last),
            (Style::Bad, &text(&item["error"])),
            (Style::Dim, word(item, "declaredIn")),
        ]);
    }
    view.put(&table);
    Some(())
}

/// `trigger show`, and what a change has made of it.
pub(super) fn shown(view: &mut PageRenderer, data: &Value) -> Option<()> {
    let name = heading(view, data)?;
    let (by, who) = attendant(data);
    view.facts(&[
        ("fires", Style::Plain, source(&data["source"]).unwrap_or_default()),
        ("in", Style::Plain, folder(&data["source"])),
        ("noticed by", by, who.to_owned()),
        ("token", Style::Attention, word(data, "token").to_owned()),
        ("POST to", Style::Plain, word(data, "webhookPath").to_owned()),
        ("what", Style::Plain, work(&data["work"]).unwrap_or_default()),
        ("if it still runs", Style::Plain, word(data, "overlap").replace('_', " ")),
        ("last", Style::Plain, last(view, data)),
        ("failures", Style::Plain, failures(data)),
        ("error", Style::Bad, text(&data["error"])),
        ("declared in", Style::Plain, word(data, "declaredIn").to_owned()),
    ]);
    if data["token"].is_string() {
        view.next("Keep the token, it is not shown again. Requests are taken by:", "subagent panel");
    }
    if data["paused"].is_string() {
        view.next("Resume it:", &format!("subagent trigger resume {name}"));
    }
    Some(())
}

fn folder(source: &Value) -> String {
    let folder = source["command"]["cwd"].as_str().or_else(|| source["files"]["folder"].as_str());
    folder.unwrap_or_default().to_owned()
}

/// What fires a trigger; `None` for a form that is unknown here.
#[must_use]
pub fn source(source: &Value) -> Option<String> {
    let (after, command, files) = (&source["after"], &source["command"], &source["files"]);
    match (after["worker"].as_str(), after["status"].as_str()) {
        (Some(worker), Some(status)) => return Some(format!("after {worker} ({status})")),
        (Some(worker), None) => return Some(format!("after {worker}")),
        (None, _) => {}
    }
    if let Some(line) = command["command"].as_str() {
        return Some(format!("every {}s, if changed: {line}", command["everySeconds"].as_u64()?));
    }
    if let Some(globs) = files["globs"].as_array() {
        let globs: Vec<&str> = globs.iter().filter_map(Value::as_str).collect();
        return Some(format!("files {}", globs.join(" ")));
    }
    match (source["webhook"].is_object(), source["request"].is_object()) {
        (true, _) => Some("webhook".to_owned()),
        (_, true) => Some("requests".to_owned()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::output::human::report;
    use crate::output::terminal::Terminal;

    const PLAIN: Terminal = Terminal { width: 100, colour: false };

    #[test]
    fn a_trigger_says_what_fires_it_and_why_it_is_paused() {
        let source = json!({"command": {"command": "git ls-remote", "cwd": "/ws", "everySeconds": 60}});
        let trigger = json!({
            "name": "upstream", "source": source, "attendant": "unattended", "overlap": "queue",
            "work": {"send": {"worker": "codex-1", "text": "go on"}}, "failures": 0, "maxFailures": 0,
            "lastFiring": null,
        });
        let text = report("trigger.shown", &trigger, "", PLAIN);
        for part in ["every 60s, if changed: git ls-remote", "/ws", "no daemon", "0 (no limit)"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let mut paused = trigger.clone();
        paused["source"] = json!({"files": {"folder": "/ws", "globs": ["src/**", "*.md"]}});
        (paused["paused"], paused["error"]) = ("source_gone".into(), json!({"message": "it is gone"}));
        let text = report("trigger.paused", &paused, "", PLAIN);
        for part in ["files src/** *.md", "paused (source gone)", "it is gone", "trigger resume upstream"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let mut hook = trigger.clone();
        (hook["source"], hook["token"]) = (json!({"webhook": {}}), "secret".into());
        hook["webhookPath"] = "/api/triggers/ci".into();
        let text = report("trigger.added", &hook, "", PLAIN);
        for part in ["secret", "/api/triggers/ci", "subagent panel"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let text = report("trigger.listed", &json!({"items": [trigger, paused, hook]}), "", PLAIN);
        assert!(text.starts_with("NAME ") && text.contains("webhook") && !text.contains('{'), "{text}");
    }
}
