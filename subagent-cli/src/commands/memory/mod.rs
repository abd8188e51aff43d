//! `memory`: the notes that agents keep for their next run. Looks at files; no daemon is involved.

mod clear;
mod edit;
mod list;
mod show;

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use subagent_config::agents::{Catalog, GivenAgents};
use subagent_config::memory::{Folder, MemoryContent, Scope};
use subagent_protocol::Code;
use subagent_protocol::time::Timestamp;

use crate::command_line::flags::{CwdFlag, JsonFlag};
use crate::commands::agent;
use crate::context::{CliContext, path_value};
use crate::failure::{Failure, Result};
use crate::output::CliOutcome;

/// `subagent memory ...`
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum MemoryCommand {
    List(list::MemoryListArgs),
    Show(show::MemoryShowArgs),
    Edit(edit::MemoryEditArgs),
    Clear(clear::MemoryClearArgs),
}

impl MemoryCommand {
    pub(crate) fn run(self, context: &CliContext) -> Result<CliOutcome> {
        match self {
            Self::List(args) => list::run(&args, context),
            Self::Show(args) => show::run(&args.one, context),
            Self::Edit(args) => edit::run(&args.one, context),
            Self::Clear(args) => clear::run(&args, context),
        }
    }
}

/// The memory that a command is about, and what all such commands take.
#[derive(Debug, Args)]
pub(crate) struct OneMemory {
    /// The agent, by the name of its definition
    #[arg(value_name = "AGENT")]
    pub(crate) agent: String,
    /// Which of its memories: user, project or local
    /// [default: that of its definition, else the only one]
    #[arg(long, value_name = "SCOPE", value_parser = scope)]
    pub(crate) scope: Option<Scope>,
    #[command(flatten)]
    pub(crate) cwd: CwdFlag,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

fn scope(word: &str) -> Result<Scope, String> {
    Scope::parse(word).ok_or_else(|| "write user, project or local".to_owned())
}

/// The memory that is meant: of the scope that was typed, else of the definition's, else the only one that there is.
fn chosen(one: &OneMemory, context: &CliContext) -> Result<Folder> {
    let root = agent::workspace_of(one.cwd.cwd.as_deref(), context)?;
    let catalog = Catalog::find(&GivenAgents::default(), &root, &context.env);
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
