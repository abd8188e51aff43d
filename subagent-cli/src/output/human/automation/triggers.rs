//! Triggers: what fires them, what they start, and why one is paused.

use serde::Deserialize;
use subagent_protocol::api::TriggerView;
use subagent_protocol::trigger::TriggerSource;

use super::schedules::{attendant, declared_in, failures, heading, last, state, status_style, work};
use crate::output::human::view::{PageRenderer, failed};
use crate::output::human::worktrees::path;
use crate::output::style::Style;
use crate::output::table::Table;

/// Shows the data of `trigger list`.
pub(in crate::output::human) fn listed(view: &mut PageRenderer, triggers: &[TriggerView]) -> Option<()> {
    if triggers.is_empty() {
        return None;
    }
    let mut table = Table::new(&["NAME", "STATE", "FIRES", "BY", "WHAT", "LAST", "ERROR", "DECLARED IN"]);
    for trigger in triggers {
        let (style, state) = state(trigger.paused);
        let firing = trigger.last_firing.as_ref();
        table.row([
            (Style::Strong, trigger.name.as_str()),
            (style, &state),
            (Style::Plain, &source(&trigger.source)),
            attendant(trigger.attendant),
            (Style::Plain, &work(&trigger.work)),
            (status_style(firing), &last(view, firing)),
            (Style::Bad, &failed(trigger.error.as_ref())),
            (Style::Dim, &declared_in(trigger.declared_in.as_deref())),
        ]);
    }
    view.put(&table);
    Some(())
}

/// A trigger, with the token and the path that `trigger add` made for a webhook.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::output::human) struct ShownTrigger {
    #[serde(flatten)]
    trigger: TriggerView,
    token: Option<String>,
    #[serde(default)]
    webhook_path: String,
}

/// `trigger show`, and what a change has made of it.
pub(in crate::output::human) fn shown(view: &mut PageRenderer, shown: &ShownTrigger) {
    let ShownTrigger { trigger, token, webhook_path } = shown;
    heading(view, &trigger.name, trigger.paused);
    let (by, who) = attendant(trigger.attendant);
    view.facts(&[
        ("fires", Style::Plain, source(&trigger.source)),
        ("in", Style::Plain, folder(&trigger.source)),
        ("noticed by", by, who.to_owned()),
        ("token", Style::Attention, token.clone().unwrap_or_default()),
        ("POST to", Style::Plain, webhook_path.clone()),
        ("what", Style::Plain, work(&trigger.work)),
        ("if it still runs", Style::Plain, trigger.overlap.as_str().replace('_', " ")),
        ("last", Style::Plain, last(view, trigger.last_firing.as_ref())),
        ("failures", Style::Plain, failures(trigger.failures, trigger.max_failures)),
        ("error", Style::Bad, failed(trigger.error.as_ref())),
        ("declared in", Style::Plain, declared_in(trigger.declared_in.as_deref())),
    ]);
    if token.is_some() {
        view.next("Keep the token, it is not shown again. Requests are taken by:", "subagent panel");
    }
    if trigger.paused.is_some() {
        view.next("Resume it:", &format!("subagent trigger resume {}", trigger.name));
    }
}

fn folder(source: &TriggerSource) -> String {
    match source {
        TriggerSource::Command { cwd: folder, .. } | TriggerSource::Files { folder, .. } => path(folder),
        _ => String::new(),
    }
}

/// What fires a trigger.
#[must_use]
pub fn source(source: &TriggerSource) -> String {
    match source {
        TriggerSource::Request {} => "requests".to_owned(),
        TriggerSource::After { worker, status: Some(status) } => format!("after {worker} ({status})"),
        TriggerSource::After { worker, status: None } => format!("after {worker}"),
        TriggerSource::Command { command, every_seconds, .. } => {
            format!("every {every_seconds}s, if changed: {command}")
        }
        TriggerSource::Files { globs, .. } => format!("files {}", globs.join(" ")),
        TriggerSource::Webhook { .. } => "webhook".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::output::human::report;
    use crate::output::terminal::OutputTerminal;

    const PLAIN: OutputTerminal = OutputTerminal { width: 100, colour: false };

    #[test]
    fn a_trigger_says_what_fires_it_and_why_it_is_paused() {
        let source = json!({"command": {"command": "git ls-remote", "cwd": "/ws", "everySeconds": 60}});
        let trigger = json!({
            "name": "upstream", "source": source, "attendant": "unattended", "overlap": "queue",
            "work": {"send": {"worker": "codex-1", "text": "go on"}}, "failures": 0, "maxFailures": 0,
            "lastFiring": null,
            "controllerId": "ctl_1", "createdAt": "2020-01-01T00:00:00+00:00",
        });
        let text = report("trigger.shown", &trigger, "", PLAIN);
        for part in ["every 60s, if changed: git ls-remote", "/ws", "no daemon", "0 (no limit)"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let mut paused = trigger.clone();
        paused["source"] = json!({"files": {"folder": "/ws", "globs": ["src/**", "*.md"]}});
        (paused["paused"], paused["error"]) =
            ("source_gone".into(), json!({"code": "INVALID_ARGUMENT", "message": "it is gone"}));
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
