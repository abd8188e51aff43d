//! What an agent may do without asking: the rules that a worker is started with, and `policy test`, which says what they
//! make of a call. No daemon is involved.

use std::path::Path;

use serde_json::{Value, json};
use subagent_config::policy::{
    Action, Call, Judged, Kind, Layer, LayerKind, Node, Places, Policy, Rule, Verdict, real_path,
};
use subagent_config::{LoadedConfig, workspace};
use subagent_protocol::policy::{PolicyLayer, PolicyRule, PolicySpec};

use super::chosen_agent::travels;
use crate::args::policy::{PolicyTest, RuleFlags};
use crate::context::{Context, path_value};
use crate::failure::{Failure, Result};
use crate::output::Outcome;

/// The layers that the config and the flags make; none if neither says anything.
fn layers(loaded: &LoadedConfig, flags: &RuleFlags) -> Result<Vec<Layer>> {
    let mut layers = Vec::new();
    if let Some(rules) = &loaded.config.permissions {
        let source = Some(loaded.path.to_string_lossy().into_owned());
        layers.push(Layer { kind: LayerKind::Config, source, rules: rules.clone() });
    }
    // The last that fits counts: so of several flags the strictest does.
    let flags = [
        ("--allow", &flags.allow, Action::Allow),
        ("--ask", &flags.ask, Action::Ask),
        ("--deny", &flags.deny, Action::Deny),
    ];
    let mut rules = Vec::new();
    for (flag, texts, action) in flags {
        for text in texts {
            let rule = Rule::parse(text, action).map_err(|found| {
                let message =
                    format!("{flag} {text:?} is no rule: character {}: {}", found.column, found.problem);
                Failure::argument(message)
                    .with("flag", flag)
                    .with("rule", text.as_str())
                    .with("column", found.column)
            })?;
            rules.push(rule);
        }
    }
    if !rules.is_empty() {
        layers.push(Layer { kind: LayerKind::Owner, source: None, rules });
    }
    Ok(layers)
}

/// What a worker is started with, as it travels; `inherited` are rules of its owner, from before the flags, `definition` those
/// of the agent that it is.
///
/// # Errors
/// `INVALID_ARGUMENT{flag,rule,column}` for a flag that is no rule.
pub(super) fn spec(
    loaded: &LoadedConfig,
    flags: &RuleFlags,
    inherited: Vec<PolicyRule>,
    definition: Option<PolicyLayer>,
    workspace: &Path,
    context: &Context,
) -> Result<Option<PolicySpec>> {
    let layers = layers(loaded, flags)?;
    if layers.is_empty() && inherited.is_empty() && definition.is_none() {
        return Ok(None);
    }
    let layers = layers.into_iter().map(|layer| PolicyLayer {
        layer: layer.kind.as_str().to_owned(),
        source: layer.source,
        rules: layer.rules.iter().map(travels).collect(),
        tools: Vec::new(),
    });
    let owner = LayerKind::Owner.as_str().to_owned();
    let before = PolicyLayer { layer: owner, source: None, rules: inherited, tools: Vec::new() };
    let before = Some(before).filter(|layer| !layer.rules.is_empty());
    // Paths that are no text match no rule.
    let home = context.env.home.clone().filter(|home| home.to_str().is_some());
    let layers = definition.into_iter().chain(layers).chain(before).collect();
    Ok(Some(PolicySpec::own(workspace.to_owned(), home, layers)))
}

pub(super) fn test(args: &PolicyTest, context: &Context) -> Result<Outcome> {
    let loaded = context.config(args.config.config.as_deref(), args.cwd.as_deref())?;
    let cwd = workspace::resolve_cwd(args.cwd.as_deref(), &context.env)?;
    // Outside of a workspace the folder itself stands for it.
    let root =
        context.workspace(args.cwd.as_deref()).map_or_else(|_| cwd.clone(), |workspace| workspace.root);
    let layers = layers(&loaded, &args.rules)?;
    let notes: Vec<String> =
        layers.iter().flat_map(|layer| layer.rules.iter().filter_map(Rule::note)).collect();
    let none = layers.is_empty();
    let places = Places { workspace: root, cwd, home: context.env.home.clone() };
    let policy = Policy { places, chain: vec![Node::new("worker", layers)] };
    let verdict = policy.decide(&call(&args.tool, args.subject.as_deref())?, &real_path);
    let data = json!({
        "tool": args.tool,
        "subject": args.subject,
        "action": verdict.action.as_str(),
        "configPath": path_value(&loaded.path),
        "configLoaded": loaded.loaded,
        "judged": verdict.judged.iter().map(judged).collect::<Vec<_>>(),
        "notes": notes,
    });
    let shown = shown(&verdict, none, &notes);
    Ok(Outcome::report("policy.tested", data, shown))
}

/// The call that these words mean.
fn call(tool: &str, subject: Option<&str>) -> Result<Call> {
    let told = match Kind::parse(tool) {
        Some(Kind::Task) => json!({"name": "Task", "rawInput": {"agent": subject}}),
        Some(Kind::Todo) => json!({"name": "TodoWrite"}),
        Some(kind) => subject_of(kind, json!({"kind": kind.as_str()}), subject),
        None => {
            // A rule of this name says whether it can be one.
            let name = Rule::parse(tool, Action::Allow).map_err(|found| {
                let message = format!("{tool:?} is no tool: character {}: {}", found.column, found.problem);
                Failure::argument(message).with("tool", tool).with("column", found.column)
            })?;
            let told = json!({"kind": "other", "name": name.text()});
            match Call::of(&told).main_kind() {
                Kind::Task => json!({"name": tool, "rawInput": {"agent": subject}}),
                kind => subject_of(kind, told, subject),
            }
        }
    };
    Ok(Call::of(&told))
}

fn subject_of(kind: Kind, mut told: Value, subject: Option<&str>) -> Value {
    let Some(subject) = subject else { return told };
    match kind {
        Kind::Execute => told["rawInput"] = json!({"command": subject}),
        Kind::Fetch => told["rawInput"] = json!({"url": subject}),
        Kind::Read | Kind::Edit | Kind::Delete | Kind::Move | Kind::Search => {
            told["locations"] = json!([{"path": subject}]);
        }
        Kind::Think | Kind::Other | Kind::Task | Kind::Todo => {}
    }
    told
}

fn judged(part: &Judged) -> Value {
    let by = part.by.as_ref().map(|by| {
        json!({
            "layer": by.layer.as_str(), "source": by.source, "rule": by.rule, "action": by.action.as_str(),
            "line": by.at.map(|at| at.line), "column": by.at.map(|at| at.column),
        })
    });
    json!({
        "kind": part.kind.as_str(), "subject": part.subject, "action": part.action.as_str(), "by": by, "note": part.note,
    })
}

/// A line for the whole, and one for each part.
fn shown(verdict: &Verdict, none: bool, notes: &[String]) -> String {
    let mut lines = vec![format!("action: {}", verdict.action)];
    for part in &verdict.judged {
        let subject = part.subject.as_deref().unwrap_or("(not told)");
        let by = part.by.as_ref().map(|by| {
            let place = match (&by.source, by.at) {
                (Some(source), Some(at)) => format!(" at {source}:{}:{}", at.line, at.column),
                (Some(source), None) => format!(" of {source}"),
                _ => String::new(),
            };
            format!("{} rule `{}: {}`{place}", by.layer.as_str(), by.rule, by.action)
        });
        let why = [by, part.note.clone()].into_iter().flatten().collect::<Vec<_>>().join("; ");
        lines.push(format!("{}\t{} {subject}\t{why}", part.action, part.kind));
    }
    if none {
        lines.push("there are no rules: every permission request waits for the owner".to_owned());
    }
    lines.extend(notes.iter().map(|note| format!("note: {note}")));
    lines.join("\n")
}
