//! What was checked: definitions of agents, config files, rules.

use serde_json::Value;

use super::usual::text;
use super::view::{PageRenderer, shown, word};
use crate::output::style::Style;

/// A prompt with more lines is cut.
const MAX_LINES: usize = 200;

/// Shows the data of `agent show`.
pub(super) fn agent(view: &mut PageRenderer, data: &Value) -> Option<()> {
    let name = data["name"].as_str()?;
    view.page.word(Style::Strong, name).end();
    let facts = [
        ("what for", "description"),
        ("mode", "mode"),
        ("from", "level"),
        ("file", "source"),
        ("launcher", "launcher"),
        ("model", "model"),
        ("can start", "startable"),
        ("tools", "tools"),
        ("permissions", "permissionMode"),
        ("most steps", "maxSteps"),
        ("seconds", "timeoutSeconds"),
        ("skills", "skills"),
        ("memory", "memory"),
        ("MCP servers", "mcpServers"),
        ("hides", "hides"),
    ];
    view.facts(&facts.map(|(label, key)| (label, Style::Plain, value(&data[key]))));
    let rules = data["permission"].as_array().into_iter().flatten();
    let rules: Vec<_> = rules
        .map(|rule| ("rule", Style::Plain, format!("{}: {}", word(rule, "rule"), word(rule, "action"))))
        .collect();
    view.facts(&rules);
    problems(view, &data["problems"]);
    let prompt = word(data, "prompt");
    if !prompt.is_empty() {
        view.page.end().prose(Style::Plain, "", "", prompt, MAX_LINES);
    }
    Some(())
}

fn value(value: &Value) -> String {
    match value {
        Value::Array(items) if items.is_empty() => String::new(),
        other => text(other),
    }
}

/// Shows the data of `agent validate`.
pub(super) fn agents(view: &mut PageRenderer, data: &Value) -> Option<()> {
    problems(view, &data["problems"]);
    let (style, said) = match data["valid"].as_bool()? {
        true => (Style::Good, "valid"),
        false => (Style::Bad, "not valid"),
    };
    let count = |key: &str| shown(&data[key]);
    view.page.word(style, said).plain("  ");
    let counted = format!("{} agents, {} errors, {} notes", count("count"), count("errors"), count("notes"));
    view.page.word(Style::Dim, &counted).end();
    Some(())
}

/// Problems of definitions: severity, place, message.
fn problems(view: &mut PageRenderer, problems: &Value) {
    for problem in problems.as_array().into_iter().flatten() {
        let severity = word(problem, "severity");
        let style = if severity == "error" { Style::Bad } else { Style::Attention };
        let place = [shown(&problem["source"]), shown(&problem["line"])];
        let place: Vec<String> = place.into_iter().filter(|part| !part.is_empty()).collect();
        problem_line(view, (style, severity), &place.join(":"), word(problem, "message"));
    }
}

/// The kind of a problem and its place, and below them the message.
fn problem_line(view: &mut PageRenderer, (style, kind): (Style, &str), place: &str, message: &str) {
    view.page.word(style, kind).plain("  ").word(Style::Plain, place).end();
    view.page.prose(Style::Plain, "  ", "  ", message, MAX_LINES);
}

/// Shows the data of `config check`.
pub(super) fn config(view: &mut PageRenderer, data: &Value) -> Option<()> {
    let lists = [("problems", "problem", Style::Bad), ("warnings", "warning", Style::Attention)];
    let mut is_well = true;
    for (key, kind, style) in lists {
        for found in data[key].as_array()? {
            is_well = false;
            let line = shown(&found["line"]);
            let place = match line.as_str() {
                "" => shown(&found["file"]),
                line => format!("{}:{line}", shown(&found["file"])),
            };
            problem_line(view, (style, kind), &place, word(found, "message"));
        }
    }
    if is_well {
        view.page.word(Style::Good, "ok");
        let files = data["files"].as_array()?;
        if files.is_empty() {
            view.page.plain("  there is no config file");
        }
        view.page.end();
        let facts: Vec<_> =
            files.iter().map(|file| (word(file, "origin"), Style::Plain, shown(&file["path"]))).collect();
        view.facts(&facts);
    }
    Some(())
}

/// Shows the data of `policy test`.
pub(super) fn policy(view: &mut PageRenderer, data: &Value) -> Option<()> {
    let action = data["action"].as_str()?;
    view.page.word(of_action(action), action).end();
    let judged = data["judged"].as_array()?;
    for part in judged {
        let own = word(part, "action");
        let subject = part["subject"].as_str().unwrap_or("(unknown)");
        view.page.plain("  ").word(of_action(own), own).plain("  ");
        view.page.word(Style::Plain, &format!("{} {subject}", word(part, "kind"))).end();
        let by = &part["by"];
        let place: Vec<String> = [&by["source"], &by["line"], &by["column"]]
            .map(shown)
            .into_iter()
            .filter(|part| !part.is_empty())
            .collect();
        let rule = match by.is_object() {
            true => format!("{}: {}", word(by, "rule"), word(by, "action")),
            false => String::new(),
        };
        view.facts(&[
            ("  rule", Style::Plain, rule),
            ("  of", Style::Dim, shown(&by["layer"])),
            ("  at", Style::Dim, place.join(":")),
            ("  note", Style::Plain, shown(&part["note"])),
        ]);
    }
    for note in data["notes"].as_array().into_iter().flatten() {
        view.page.sentence(Style::Plain, "note: ", "  ", note.as_str()?).end();
    }
    Some(())
}

fn of_action(action: &str) -> Style {
    match action {
        "allow" => Style::Good,
        "deny" => Style::Bad,
        _ => Style::Attention,
    }
}
