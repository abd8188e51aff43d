//! Flags about definitions of agents: `--agent` of what starts a worker, and `subagent agent`.

use std::path::PathBuf;

use clap::builder::TypedValueParser;
use clap::{Args, Subcommand};

use super::{JsonFlag, path};

/// `--agent` and `--agents`.
#[derive(Debug, Clone, Default, Args)]
pub struct AgentFlags {
    /// The definition of the agent (see agent list)
    #[arg(long, value_name = "NAME")]
    pub agent: Option<String>,
    /// More definitions: a JSON object of names and definitions with a `prompt`
    #[arg(long, value_name = "JSON")]
    pub agents: Option<String>,
}

/// `--agent` and `--agents` of a message.
#[derive(Debug, Clone, Default, Args)]
pub struct SendAgentFlags {
    /// Change the worker's definition: rules, mode and model (see agent list)
    #[arg(long, value_name = "NAME")]
    pub agent: Option<String>,
    /// More definitions: a JSON object of names and definitions with a `prompt`
    #[arg(long, value_name = "JSON")]
    pub agents: Option<String>,
}

/// Where definitions are looked for.
#[derive(Debug, Clone, Args)]
pub struct DefinitionPlace {
    /// More definitions: a JSON object of names and definitions with a `prompt`
    #[arg(long, value_name = "JSON")]
    pub agents: Option<String>,
    /// A folder of the workspace whose definitions count [default: .]
    #[arg(long, value_name = "PATH", value_parser = path())]
    pub cwd: Option<PathBuf>,
    /// Which form of output.
    #[command(flatten)]
    pub json: JsonFlag,
}

/// `subagent agent ...`
#[allow(missing_docs)]
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub enum AgentCommand {
    List(AgentList),
    Show(AgentShow),
    Validate(AgentValidate),
}

/// List the definitions of agents, where each is from and what it hides
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent agent list
  subagent agent list --cwd ~/src/thing --json")]
pub struct AgentList {
    /// Where they are looked for.
    #[command(flatten)]
    pub place: DefinitionPlace,
}

/// Show one definition as it would count
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  subagent agent show explore")]
pub struct AgentShow {
    /// Its name
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Where it is looked for.
    #[command(flatten)]
    pub place: DefinitionPlace,
}

/// Say what is wrong with definitions, by file, line and column
///
/// Without a PATH all definitions are looked at that `agent list` knows. The exit code is 1 if one cannot be started.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent agent validate
  subagent agent validate .agents/agents/reviewer.md")]
pub struct AgentValidate {
    /// Files, or folders with files
    #[arg(value_name = "PATH", value_parser = existing())]
    pub paths: Vec<PathBuf>,
    /// Where they are looked for.
    #[command(flatten)]
    pub place: DefinitionPlace,
}

/// A path that leads somewhere, or an empty one.
fn existing() -> impl TypedValueParser<Value = PathBuf> {
    path().try_map(|path| match path.as_os_str().is_empty() || path.exists() {
        true => Ok(path),
        false => Err("there is no such file or folder"),
    })
}
