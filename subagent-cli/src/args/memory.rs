//! Flags of `memory`: the notes that agents keep for their next run.

use clap::{Args, Subcommand};
use subagent_config::memory::Scope;

use super::{CwdFlag, JsonFlag};

/// `subagent memory ...`
#[allow(missing_docs)]
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub enum MemoryCommand {
    List(MemoryList),
    Show(MemoryShow),
    Edit(MemoryEdit),
    Clear(MemoryClear),
}

impl MemoryCommand {
    /// Whether it was given `--json`.
    #[must_use]
    pub const fn json(&self) -> bool {
        match self {
            Self::List(args) => args.json.json,
            Self::Show(args) => args.one.json.json,
            Self::Edit(args) => args.one.json.json,
            Self::Clear(args) => args.one.json.json,
        }
    }
}

/// The memory that a command is about, and what all such commands take.
#[derive(Debug, Args)]
pub struct OneMemory {
    /// The agent, by the name of its definition
    #[arg(value_name = "AGENT")]
    pub agent: String,
    /// Which of its memories: user, project or local
    /// [default: that of its definition, else the only one]
    #[arg(long, value_name = "SCOPE", value_parser = scope)]
    pub scope: Option<Scope>,
    /// `--cwd`, a folder of the workspace.
    #[command(flatten)]
    pub cwd: CwdFlag,
    /// Which form of output.
    #[command(flatten)]
    pub json: JsonFlag,
}

fn scope(word: &str) -> Result<Scope, String> {
    Scope::parse(word).ok_or_else(|| "write user, project or local".to_owned())
}

/// List the memories of agents: those of the user and of the workspace
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent memory list
  subagent memory list --json")]
pub struct MemoryList {
    /// `--cwd`, a folder of the workspace.
    #[command(flatten)]
    pub cwd: CwdFlag,
    /// Which form of output.
    #[command(flatten)]
    pub json: JsonFlag,
}

/// Print the MEMORY.md of an agent
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent memory show reviewer
  subagent memory show reviewer --scope user --json")]
pub struct MemoryShow {
    /// The agent, the scope and the workspace of the memory.
    #[command(flatten)]
    pub one: OneMemory,
}

/// Open the MEMORY.md of an agent in $VISUAL or $EDITOR
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  EDITOR=nano subagent memory edit reviewer")]
pub struct MemoryEdit {
    /// The agent, the scope and the workspace of the memory.
    #[command(flatten)]
    pub one: OneMemory,
}

/// Delete everything in the memory of an agent
///
/// Asks at a terminal. The folder itself stays.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent memory clear reviewer
  subagent memory clear reviewer --scope local --yes")]
pub struct MemoryClear {
    /// The agent, the scope and the workspace of the memory.
    #[command(flatten)]
    pub one: OneMemory,
    /// Do not ask
    #[arg(long)]
    pub yes: bool,
}
