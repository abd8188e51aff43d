//! `hook trust`: which contents of files may run their hooks.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};
use subagent_config::hooks::{FileHooks, HookEntry, load};
use subagent_protocol::api::{DistrustHooks, TrustHooks};
use subagent_protocol::clean::one_line;

use crate::client::{ApiRequest, DaemonClient, block_on};
use crate::command_line::flags::{CwdFlag, JsonFlag, path};
use crate::commands::targets::has_state;
use crate::context::{CliContext, present_path};
use crate::dialog::confirm as ask;
use crate::failure::{Failure, Result};
use crate::output::{CliOutcome, complain, json, text};

/// Trust the hooks of a file, as long as its content stays the same
///
/// Shows the commands and asks at a terminal. FILE is a config file or a definition (*.md). A changed file is not trusted
/// until you trust it again. Scripts that its commands run are not part of its content. From below a worker it is refused.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent hook trust .subagent/config.yaml
  subagent hook trust .claude/agents/reviewer.md --yes
  subagent hook trust --list
  subagent hook trust --remove .subagent/config.yaml")]
pub(crate) struct HookTrustArgs {
    /// The file
    #[arg(value_name = "FILE", value_parser = path(), required_unless_present = "list")]
    pub(crate) file: Option<PathBuf>,
    /// Do not ask
    #[arg(long)]
    pub(crate) yes: bool,
    /// List the files whose hooks are trusted
    #[arg(long, conflicts_with_all = ["file", "yes", "remove"])]
    pub(crate) list: bool,
    /// Trust no content of the file any more
    #[arg(long, conflicts_with = "yes")]
    pub(crate) remove: bool,
    #[command(flatten)]
    pub(crate) cwd: CwdFlag,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

pub(super) fn run(args: &HookTrustArgs, context: &CliContext) -> Result<CliOutcome> {
    let workspace = context.workspace(args.cwd.cwd.as_deref())?;
    let mut client = DaemonClient::new(context, &workspace);
    if args.list {
        let data = match has_state(&workspace) {
            true => block_on(async move { client.ask(&ApiRequest::get("/v1/hooks/trust")).await })?,
            false => json!({"items": [], "count": 0}),
        };
        let shown = text::rows(&data, &["file", "sha256", "trustedAt"], "");
        return Ok(CliOutcome::list("hook.trust", data, shown, "(no file is trusted)"));
    }
    let Some(file) = present_path(args.file.clone()) else {
        return Err(Failure::argument("no file: `subagent hook list` shows the files with hooks"));
    };
    if args.remove {
        let file = load::resolved(&file, &context.env);
        let ask = ApiRequest::change("/v1/hooks/trust/remove", &DistrustHooks { file })?;
        let data = block_on(async move { client.ask(&ask).await })?;
        let shown = text::fields(&data, &["file", "removed"]);
        return Ok(CliOutcome::report("hook.distrusted", data, shown));
    }
    let (file, hooks) = load::of_file(&file, &context.env)?;
    if !args.yes {
        confirm(&file, &hooks)?;
    }
    let ask = ApiRequest::change("/v1/hooks/trust", &TrustHooks { file, sha256: hooks.sha256.clone() })?;
    let mut data = block_on(async move { client.ask(&ask).await })?;
    json::extend(&mut data, [("hooks", hooks.entries.iter().map(report).collect())]);
    let lines = hooks.entries.iter().map(line);
    let lines = std::iter::once(text::fields(&data, &["file", "sha256"])).chain(lines);
    let shown = lines.collect::<Vec<_>>().join("\n");
    Ok(CliOutcome::report("hook.trusted", data, shown))
}

fn report(entry: &HookEntry) -> Value {
    json!({"event": entry.event.as_str(), "matcher": entry.matcher.as_deref().unwrap_or("*"), "command": entry.command})
}

fn line(entry: &HookEntry) -> String {
    let matcher = entry.matcher.as_deref().unwrap_or("*");
    format!("{}\t{}\t{}", entry.event.as_str(), one_line(matcher), one_line(&entry.command))
}

/// Shows what the file runs, and asks.
fn confirm(file: &Path, hooks: &FileHooks) -> Result<()> {
    ask::needs_terminal("trust").map_err(|failure| {
        failure
            .with("file", file.to_string_lossy())
            .recommend("look at the file, then repeat the command with --yes")
    })?;
    complain(&format!("{} runs as you, outside of any sandbox:", file.display()));
    for entry in &hooks.entries {
        complain(&format!("  {}", line(entry)));
    }
    match ask::says_yes("Trust them?") {
        true => Ok(()),
        false => Err(Failure::argument("the hooks were not trusted").with("file", file.to_string_lossy())),
    }
}
