//! What was checked: definitions of agents, config files, rules.

use serde::Deserialize;
use serde_json::Value;

use crate::output::human::of;
use crate::output::human::usual::text;
use crate::output::human::view::{PageRenderer, optional};
use crate::output::style::Style;

/// A prompt with more lines is cut.
const MAX_LINES: usize = 200;

/// A definition, besides the facts that are shown by their names.
#[derive(Debug, Deserialize)]
struct CheckedDefinition {
    name: String,
    permission: Vec<CheckedRule>,
    problems: Vec<DefinitionFault>,
    prompt: String,
}

#[derive(Debug, Deserialize)]
struct CheckedRule {
    rule: String,
    action: String,
}

/// A problem of a definition and its place.
#[derive(Debug, Deserialize)]
struct DefinitionFault {
    severity: String,
    source: Option<String>,
    line: Option<u64>,
    message: String,
}

/// Shows the data of `agent show`.
pub(in crate::output::human) fn agent(view: &mut PageRenderer, data: &Value) -> Option<()> {
    let definition: CheckedDefinition = of(data)?;
    view.page.word(Style::Strong, &definition.name).end();
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
    let rules = definition.permission.iter();
    let rules: Vec<_> = rules
        .map(|CheckedRule { rule, action }| ("rule", Style::Plain, format!("{rule}: {action}")))
        .collect();
    view.facts(&rules);
    problems(view, &definition.problems);
    if !definition.prompt.is_empty() {
        view.page.end().prose(Style::Plain, "", "", &definition.prompt, MAX_LINES);
    }
    Some(())
}

fn value(value: &Value) -> String {
    match value {
        Value::Array(items) if items.is_empty() => String::new(),
        other => text(other),
    }
}

/// What `agent validate` found.
#[derive(Debug, Deserialize)]
pub(in crate::output::human) struct CheckedDefinitions {
    valid: bool,
    count: u64,
    errors: u64,
    notes: u64,
    problems: Vec<DefinitionFault>,
}

/// Shows the data of `agent validate`.
pub(in crate::output::human) fn agents(view: &mut PageRenderer, checked: &CheckedDefinitions) {
    let CheckedDefinitions { valid, count, errors, notes, problems: found } = checked;
    problems(view, found);
    let (style, said) = if *valid { (Style::Good, "valid") } else { (Style::Bad, "not valid") };
    view.page.word(style, said).plain("  ");
    let counted = format!("{count} agents, {errors} errors, {notes} notes");
    view.page.word(Style::Dim, &counted).end();
}

/// Problems of definitions: severity, place, message.
fn problems(view: &mut PageRenderer, problems: &[DefinitionFault]) {
    for DefinitionFault { severity, source, line, message } in problems {
        let style = if severity == "error" { Style::Bad } else { Style::Attention };
        let place: Vec<String> = [source.clone(), line.map(|line| line.to_string())]
            .into_iter()
            .flatten()
            .filter(|part| !part.is_empty())
            .collect();
        problem_line(view, (style, severity), &place.join(":"), message);
    }
}

/// The kind of a problem and its place, and below them the message.
fn problem_line(view: &mut PageRenderer, (style, kind): (Style, &str), place: &str, message: &str) {
    view.page.word(style, kind).plain("  ").word(Style::Plain, place).end();
    view.page.prose(Style::Plain, "  ", "  ", message, MAX_LINES);
}

/// What `config check` found.
#[derive(Debug, Deserialize)]
pub(in crate::output::human) struct CheckedConfig {
    problems: Vec<ConfigFault>,
    warnings: Vec<ConfigFault>,
    files: Vec<CheckedFile>,
}

#[derive(Debug, Deserialize)]
struct ConfigFault {
    file: String,
    line: Option<u64>,
    message: String,
}

#[derive(Debug, Deserialize)]
struct CheckedFile {
    origin: String,
    path: String,
}

/// Shows the data of `config check`.
pub(in crate::output::human) fn config(view: &mut PageRenderer, checked: &CheckedConfig) {
    let CheckedConfig { problems, warnings, files } = checked;
    for (found, kind, style) in [(problems, "problem", Style::Bad), (warnings, "warning", Style::Attention)] {
        for ConfigFault { file, line, message } in found {
            let place = line.map_or_else(|| file.clone(), |line| format!("{file}:{line}"));
            problem_line(view, (style, kind), &place, message);
        }
    }
    if problems.is_empty() && warnings.is_empty() {
        view.page.word(Style::Good, "ok");
        if files.is_empty() {
            view.page.plain("  there is no config file");
        }
        view.page.end();
        let facts: Vec<_> =
            files.iter().map(|file| (file.origin.as_str(), Style::Plain, file.path.clone())).collect();
        view.facts(&facts);
    }
}

/// What `policy test` found.
#[derive(Debug, Deserialize)]
pub(in crate::output::human) struct TestedPolicy {
    action: String,
    judged: Vec<JudgedCall>,
    #[serde(default)]
    notes: Vec<String>,
}

/// A part of the call, and the rule that decides it.
#[derive(Debug, Deserialize)]
struct JudgedCall {
    action: String,
    kind: String,
    subject: Option<String>,
    by: Option<DecisiveRule>,
    note: Option<String>,
}

#[derive(Debug, Deserialize)]
struct DecisiveRule {
    rule: String,
    action: String,
    layer: String,
    source: Option<String>,
    line: Option<u64>,
    column: Option<u64>,
}

/// Shows the data of `policy test`.
pub(in crate::output::human) fn policy(view: &mut PageRenderer, tested: &TestedPolicy) {
    view.page.word(of_action(&tested.action), &tested.action).end();
    for JudgedCall { action, kind, subject, by, note } in &tested.judged {
        let subject = subject.as_deref().unwrap_or("(unknown)");
        view.page.plain("  ").word(of_action(action), action).plain("  ");
        view.page.word(Style::Plain, &format!("{kind} {subject}")).end();
        let place = by.iter().flat_map(|by| [by.source.clone(), number(by.line), number(by.column)]);
        let place: Vec<String> = place.flatten().filter(|part| !part.is_empty()).collect();
        let rule = by.as_ref().map(|by| format!("{}: {}", by.rule, by.action));
        view.facts(&[
            ("  rule", Style::Plain, optional(rule)),
            ("  of", Style::Dim, optional(by.as_ref().map(|by| &by.layer))),
            ("  at", Style::Dim, place.join(":")),
            ("  note", Style::Plain, optional(note.as_ref())),
        ]);
    }
    for note in &tested.notes {
        view.page.sentence(Style::Plain, "note: ", "  ", note).end();
    }
}

fn number(number: Option<u64>) -> Option<String> {
    number.map(|number| number.to_string())
}

fn of_action(action: &str) -> Style {
    match action {
        "allow" => Style::Good,
        "deny" => Style::Bad,
        _ => Style::Attention,
    }
}
