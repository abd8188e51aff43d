//! Flags of what a schedule or a trigger starts.

use std::path::PathBuf;

use clap::Args;
use subagent_protocol::schedule::Overlap;

use super::{ConfigFlag, CwdFlag, JsonFlag, path};

/// What is started, and how firings are handled.
#[derive(Debug, Args)]
pub struct StartFlags {
    /// A launcher or a definition of an agent
    #[arg(value_name = "AGENT", conflicts_with_all = ["task", "send"])]
    pub agent: Option<String>,
    /// What it is to do; - reads stdin
    #[arg(value_name = "PROMPT")]
    pub prompt: Option<String>,
    /// Firings while an earlier one is running
    #[arg(long, value_name = "WHAT", default_value = "queue", value_parser = ["skip", "queue", "parallel", "cancel-previous"])]
    pub overlap: String,
    /// Pause after this number of failed firings in a row; 0: never
    #[arg(long, value_name = "N", default_value_t = subagent_protocol::schedule::MAX_FAILURES)]
    pub max_failures: u32,
    /// The definition of the agent that gets the text as a task
    #[arg(long, value_name = "DEFINITION", conflicts_with = "send")]
    pub task: Option<String>,
    /// The worker that gets the text as a message
    #[arg(long, value_name = "WORKER")]
    pub send: Option<String>,
    /// The text (for complex text use --text-file or --text-stdin)
    #[arg(long)]
    pub text: Option<String>,
    /// Read the text from a file
    #[arg(long, value_name = "PATH", value_parser = path())]
    pub text_file: Option<PathBuf>,
    /// Read the text from stdin
    #[arg(long)]
    pub text_stdin: bool,
    /// The launcher of an agent that names none [default: the config's]
    #[arg(long, value_name = "NAME")]
    pub launcher: Option<String>,
    /// The sandbox of each task [default: as the config says]
    #[arg(long, value_name = "NAME")]
    pub sandbox: Option<String>,
    /// The git worktree of each task.
    #[command(flatten)]
    pub worktree: super::worktrees::WorktreeFlags,
    /// The controller, by its id
    #[arg(long, value_name = "ID")]
    pub controller_id: Option<String>,
    /// `--config`, the path of the config file.
    #[command(flatten)]
    pub config: ConfigFlag,
    /// Where the tasks work
    #[arg(long, value_name = "PATH", value_parser = path())]
    pub cwd: Option<PathBuf>,
}

/// One schedule or trigger, and where it is.
#[derive(Debug, Args)]
pub struct OneStarter {
    /// Its name
    #[arg(value_name = "NAME")]
    pub name: String,
    /// `--cwd`, a folder of the workspace.
    #[command(flatten)]
    pub cwd: CwdFlag,
    /// Which form of output.
    #[command(flatten)]
    pub json: JsonFlag,
}

impl StartFlags {
    /// What happens to firings that overlap.
    #[must_use]
    pub fn overlap(&self) -> Overlap {
        Overlap::parse(&self.overlap).unwrap_or(Overlap::Queue)
    }
}
