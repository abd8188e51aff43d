//! `policy test`: what the rules that a worker would be started with make of a call. No daemon is involved.

use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};
use subagent_config::policy::{
    BaseFolders, CallVerdict, Judged, Node, Policy, Rule, RuleAction, ToolCallDescription, ToolKind,
    real_path,
};
use subagent_config::start::policy::layers;
use subagent_config::workspace;

use crate::command_line::flags::start::RuleFlags;
use crate::command_line::flags::{ConfigFlag, JsonFlag, path};
use crate::context::{CliContext, path_value};
use crate::failure::{Failure, Result};
use crate::output::CliOutcome;

/// Say what becomes of a call, and which rule decides
///
/// TOOL is read, edit, delete, move, search, execute, think, fetch, other, task, or the name of a tool. SUBJECT is the
/// command line, path, address or agent. The rules are those of the config file, then those of the flags: what a worker
/// gets that is started now. No daemon is asked and no command is run.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent policy test execute 'git push -f'
  subagent policy test edit src/main.rs --deny 'edit(*.rs)' --json")]
pub(crate) struct PolicyTestArgs {
    /// What kind of call, or the name of a tool
    #[arg(value_name = "TOOL")]
    pub(crate) tool: String,
    /// What it is about
    #[arg(value_name = "SUBJECT", allow_hyphen_values = true)]
    pub(crate) subject: Option<String>,
    #[command(flatten)]
    pub(crate) rules: RuleFlags,
    /// Where the agent would work, and whose config counts [default: .]
    #[arg(long, value_name = "PATH", value_parser = path())]
    pub(crate) cwd: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) config: ConfigFlag,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

pub(crate) fn run(args: &PolicyTestArgs, context: &CliContext) -> Result<CliOutcome> {
    let loaded = context.config(args.config.config.as_deref(), args.cwd.as_deref())?;
    let cwd = workspace::resolve_cwd(args.cwd.as_deref(), &context.env)?;
    // Outside of a workspace the folder itself stands for it.
    let root =
        context.workspace(args.cwd.as_deref()).map_or_else(|_| cwd.clone(), |workspace| workspace.root);
    let layers = layers(&loaded, &args.rules.clone().into())?;
    let misspelled = ToolKind::misspelled_as(&args.tool);
    let mut notes: Vec<String> =
        layers.iter().flat_map(|layer| layer.rules.iter().filter_map(Rule::note)).collect();
    notes.extend(misspelled.map(|kind| {
        format!("`{}` is not a kind of tool, so it counts as a tool name; did you mean `{kind}`?", args.tool)
    }));
    let none = layers.is_empty();
    let places = BaseFolders { workspace: root, cwd, home: context.env.home.clone() };
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
    Ok(CliOutcome::report("policy.tested", data, shown))
}

/// The call that these words mean.
fn call(tool: &str, subject: Option<&str>) -> Result<ToolCallDescription> {
    let reported = match ToolKind::parse(tool) {
        Some(ToolKind::Task) => json!({"name": "Task", "rawInput": {"agent": subject}}),
        Some(ToolKind::Todo) => json!({"name": "TodoWrite"}),
        Some(kind) => subject_of(kind, json!({"kind": kind.as_str()}), subject),
        None => {
            // A rule of this name says whether it can be one.
            let name = Rule::parse(tool, RuleAction::Allow).map_err(|found| {
                let message =
                    format!("{tool:?} is not a tool: character {}: {}", found.column, found.problem);
                Failure::argument(message).with("tool", tool).with("column", found.column)
            })?;
            let reported = json!({"kind": "other", "name": name.text()});
            match ToolCallDescription::of(&reported).main_kind() {
                ToolKind::Task => json!({"name": tool, "rawInput": {"agent": subject}}),
                kind => subject_of(kind, reported, subject),
            }
        }
    };
    Ok(ToolCallDescription::of(&reported))
}

fn subject_of(kind: ToolKind, mut reported: Value, subject: Option<&str>) -> Value {
    let Some(subject) = subject else { return reported };
    let about = match kind {
        ToolKind::Execute => ("rawInput", json!({"command": subject})),
        ToolKind::Fetch => ("rawInput", json!({"url": subject})),
        ToolKind::Read | ToolKind::Edit | ToolKind::Delete | ToolKind::Move | ToolKind::Search => {
            ("locations", json!([{"path": subject}]))
        }
        ToolKind::Think | ToolKind::Other | ToolKind::Task | ToolKind::Todo => return reported,
    };
    subagent_protocol::json::extend(&mut reported, [about]);
    reported
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
fn shown(verdict: &CallVerdict, none: bool, notes: &[String]) -> String {
    let mut lines = vec![format!("action: {}", verdict.action)];
    for part in &verdict.judged {
        let subject = part.subject.as_deref().unwrap_or("(unknown)");
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
