//! `hook list`: the hooks that apply here.

use clap::Args;
use serde_json::{Value, json};
use subagent_config::hooks::HookEntry;
use subagent_config::start::hooks::HookSource;

use super::untrusted::{self, Trusted};
use super::{DefinitionFilter, of_place};
use crate::client::{DaemonClient, block_on};
use crate::command_line::flags::{ConfigFlag, CwdFlag, JsonFlag};
use crate::commands::targets::has_state;
use crate::context::{CliContext, path_value, present};
use crate::failure::Result;
use crate::output::{CliOutcome, text};

/// List the hooks that apply here: of your config file, of the project, of definitions
///
/// For each its event, matcher, command, file, and whether it runs: hooks of a project or a definition run only while you
/// trust the content of their file.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent hook list
  subagent hook list --agent reviewer --json")]
pub(crate) struct HookListArgs {
    /// Of the definitions only this one
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Option<String>,
    #[command(flatten)]
    pub(crate) cwd: CwdFlag,
    #[command(flatten)]
    pub(crate) config: ConfigFlag,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

pub(super) fn run(args: &HookListArgs, context: &CliContext) -> Result<CliOutcome> {
    let agent = present(args.agent.clone());
    let wanted = agent.as_deref().map_or(DefinitionFilter::All, DefinitionFilter::Named);
    let found = of_place(&args.config, &args.cwd, wanted, context)?;
    let trusted = match context.workspace(args.cwd.cwd.as_deref()) {
        Ok(workspace) if has_state(&workspace) && !found.is_empty() => {
            let mut client = DaemonClient::new(context, &workspace);
            block_on(async move { Trusted::of(&mut client).await })?
        }
        _ => Trusted::default(),
    };
    let (mut items, mut files) = (Vec::new(), Vec::new());
    for (origin, agent) in &found {
        let is_trusted = trusted.allows(origin.origin, &origin.file, &origin.hooks.sha256);
        let entries = origin.hooks.entries.iter();
        items.extend(entries.map(|entry| item(entry, origin, agent.as_deref(), is_trusted)));
        let file = origin.file.to_string_lossy().into_owned();
        if !is_trusted && !origin.hooks.entries.is_empty() && !files.contains(&file) {
            files.push(file);
        }
    }
    let data = json!({"count": items.len(), "items": items});
    let shown = text::rows(&data, &["event", "matcher", "runs", "origin", "command", "file"], "");
    let outcome = CliOutcome::list("hook.list", data, shown, "(no hooks)");
    Ok(if files.is_empty() {
        outcome
    } else {
        outcome.with_note(untrusted::advice(files.iter().map(String::as_str)))
    })
}

fn item(entry: &HookEntry, origin: &HookSource, agent: Option<&str>, trusted: bool) -> Value {
    let runs = if trusted { "yes" } else { "untrusted" };
    json!({
        "event": entry.event.as_str(),
        "matcher": entry.matcher.as_deref().unwrap_or("*"),
        "command": entry.command,
        "timeoutSeconds": entry.timeout.as_secs_f64(),
        "origin": origin.origin.as_str(),
        "agent": agent,
        "file": path_value(&origin.file),
        "line": entry.at.map(|at| at.line),
        "trusted": trusted,
        "runs": runs,
    })
}
