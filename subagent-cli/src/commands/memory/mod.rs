//! `memory`: the notes that agents keep for their next run. Looks at files; no daemon is involved.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use subagent_config::agents::{Catalog, Given};
use subagent_config::memory::{Folder, MemoryContent, Scope};
use subagent_protocol::Code;
use subagent_protocol::time::Timestamp;

use crate::args::memory::{MemoryClear, MemoryCommand, MemoryList, OneMemory};
use crate::commands::agent;
use crate::context::{CliContext, path_value};
use crate::dialog::confirm;
use crate::failure::{Failure, Result};
use crate::output::{CliOutcome, text};

pub(crate) fn run(command: MemoryCommand, context: &CliContext) -> Result<CliOutcome> {
    match command {
        MemoryCommand::List(args) => list(&args, context),
        MemoryCommand::Show(args) => show(&args.one, context),
        MemoryCommand::Edit(args) => edit(&args.one, context),
        MemoryCommand::Clear(args) => clear(&args, context),
    }
}

fn list(args: &MemoryList, context: &CliContext) -> Result<CliOutcome> {
    let root = agent::workspace_of(args.cwd.cwd.as_deref(), context)?;
    let folders = Folder::all(&root, &context.env).map_err(unusable)?;
    // One that cannot be read does not hide the others.
    let item = |folder: &Folder| match folder.entry() {
        Ok(entry) => described(folder, entry.as_ref(), None),
        Err(problem) => described(folder, None, Some(problem)),
    };
    let items: Vec<Value> = folders.iter().map(item).collect();
    let data = json!({"count": items.len(), "items": items, "workspace": path_value(&root)});
    let shown = text::rows(&data, &["agent", "scope", "lines", "bytes", "changedAt", "path"], "");
    Ok(CliOutcome::list("memory.listed", data, shown, "(no memories)"))
}

fn show(one: &OneMemory, context: &CliContext) -> Result<CliOutcome> {
    let folder = chosen(one, context)?;
    let entry = folder.entry().map_err(unusable)?;
    let Some(entry) = entry.filter(|entry| entry.changed.is_some()) else { return Err(nothing(&folder)) };
    let mut data = described(&folder, Some(&entry), None);
    data["text"] = entry.text.as_str().into();
    Ok(CliOutcome::report("memory.shown", data, entry.text.trim_end().to_owned()))
}

fn edit(one: &OneMemory, context: &CliContext) -> Result<CliOutcome> {
    let folder = chosen(one, context)?;
    let set = |name: &str| context.env.var(name).filter(|value| !value.is_empty()).map(OsString::from);
    let editor = ["VISUAL", "EDITOR"].into_iter().find_map(set).ok_or_else(|| {
        Failure::argument("no editor is set: VISUAL and EDITOR are empty")
            .with("path", path_value(&folder.file()))
            .recommend("set EDITOR, or open the file yourself")
    })?;
    folder.make().map_err(unusable)?;
    // The editor would follow a link, or wait for a pipe.
    folder.entry().map_err(unusable)?;
    // A variable with flags, as git takes it.
    let mut script = editor.clone();
    script.push(" \"$@\"");
    let failed = |how: String| {
        Failure::new(Code::Internal, format!("the editor {} {how}", editor.display()))
            .with("path", path_value(&folder.file()))
    };
    let status = Command::new("/bin/sh").arg("-c").arg(script).arg("sh").arg(folder.file()).status();
    match status {
        Ok(status) if status.success() => {}
        Ok(status) => return Err(failed(format!("failed: {status}"))),
        Err(error) => return Err(failed(format!("cannot be started: {error}"))),
    }
    let entry = folder.entry().map_err(unusable)?;
    let data = described(&folder, entry.as_ref(), None);
    let shown = text::fields(&data, &["agent", "scope", "lines", "bytes", "path"]);
    Ok(CliOutcome::report("memory.edited", data, shown))
}

fn clear(args: &MemoryClear, context: &CliContext) -> Result<CliOutcome> {
    let folder = chosen(&args.one, context)?;
    if folder.entry().is_ok_and(|entry| entry.is_none()) {
        return Err(nothing(&folder));
    }
    if !args.yes {
        confirm::needs_terminal("to clear a memory").map_err(|failure| {
            failure.with("path", path_value(&folder.path())).recommend("repeat the command with --yes")
        })?;
        if !confirm::says_yes(&format!("Delete everything in {}?", folder.path().display())) {
            return Err(Failure::argument("nothing was deleted").with("path", path_value(&folder.path())));
        }
    }
    let removed = folder.clear().map_err(unusable)?;
    let data = json!({
        "agent": folder.agent(), "scope": folder.scope().as_str(), "path": path_value(&folder.path()),
        "removed": removed,
    });
    let shown = text::fields(&data, &["agent", "scope", "removed", "path"]);
    Ok(CliOutcome::report("memory.cleared", data, shown))
}

/// The memory that is meant: of the scope that was typed, else of the definition's, else the only one that there is.
fn chosen(one: &OneMemory, context: &CliContext) -> Result<Folder> {
    let root = agent::workspace_of(one.cwd.cwd.as_deref(), context)?;
    let catalog = Catalog::find(&Given::default(), &root, &context.env);
    let definition = catalog.named(&one.agent).ok().map(|found| &found.definition);
    let agent = definition.map_or(one.agent.as_str(), |definition| &definition.name);
    let scope = one.scope.or_else(|| Some(definition?.memory?.scope));
    let folder = |scope: Scope| {
        Folder::of(scope, agent, &root, &context.env)
            .map_err(|problem| Failure::argument(problem).with("agent", agent))
    };
    if let Some(scope) = scope {
        return folder(scope);
    }
    // Says what is wrong with the name, if anything is.
    let project = folder(Scope::Project)?;
    let all = Folder::all(&root, &context.env).map_err(unusable)?;
    let mut own = all.into_iter().filter(|folder| folder.agent() == agent);
    match (own.next(), own.next()) {
        (None, _) => Err(nothing(&project)),
        (Some(only), None) => Ok(only),
        (Some(first), Some(second)) => {
            let scopes: Vec<&str> = [first, second]
                .iter()
                .chain(&own.collect::<Vec<_>>())
                .map(|one| one.scope().as_str())
                .collect();
            let message = format!("the agent `{agent}` has several memories: {}", scopes.join(", "));
            Err(Failure::argument(message)
                .with("agent", agent)
                .with("scopes", scopes)
                .recommend("say which one with --scope"))
        }
    }
}

/// A memory as data.
fn described(folder: &Folder, entry: Option<&MemoryContent>, problem: Option<String>) -> Value {
    let changed = entry.and_then(|entry| entry.changed).and_then(timestamp);
    json!({
        "agent": folder.agent(), "scope": folder.scope().as_str(), "path": path_value(&folder.file()),
        "lines": entry.map(|entry| entry.text.lines().count()), "bytes": entry.map(|entry| entry.bytes),
        "changedAt": changed, "problem": problem,
    })
}

fn timestamp(time: SystemTime) -> Option<Timestamp> {
    let since = time.duration_since(UNIX_EPOCH).ok()?;
    i64::try_from(since.as_millis()).ok().map(Timestamp)
}

fn nothing(folder: &Folder) -> Failure {
    let path: PathBuf = folder.file();
    let message = format!("the agent `{}` has no notes: there is no {}", folder.agent(), path.display());
    Failure::new(Code::MemoryNotFound, message)
        .with("agent", folder.agent())
        .with("path", path_value(&path))
        .recommend("`subagent memory list` shows all; `subagent memory edit AGENT --scope SCOPE` begins one")
}

fn unusable(problem: String) -> Failure {
    Failure::new(Code::MemoryNotUsable, problem)
        .recommend("move away what is in the way; agents and commands follow no link there")
}
