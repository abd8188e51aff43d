//! What a schedule or a trigger starts, as it is typed.

use std::path::PathBuf;

use clap::Args;
use subagent_protocol::schedule::Overlap;

use crate::command_line::flags::start::WorktreeFlags;
use crate::command_line::flags::{ConfigFlag, CwdFlag, JsonFlag, TextFlags, path};

/// What is started, and how firings are handled.
#[derive(Debug, Args)]
pub(crate) struct FiringFlagsArgs {
    /// A launcher or a definition of an agent
    #[arg(value_name = "AGENT", conflicts_with_all = ["task", "send"])]
    pub(crate) agent: Option<String>,
    /// What it is to do; - reads stdin
    #[arg(value_name = "PROMPT")]
    pub(crate) prompt: Option<String>,
    /// Firings while an earlier one is running
    #[arg(long, value_name = "WHAT", default_value = "queue", value_parser = ["skip", "queue", "parallel", "cancel-previous"])]
    pub(crate) overlap: String,
    /// Pause after this number of failed firings in a row; 0: never
    #[arg(long, value_name = "N", default_value_t = subagent_protocol::schedule::MAX_FAILURES)]
    pub(crate) max_failures: u32,
    /// The definition of the agent that gets the text as a task
    #[arg(long, value_name = "DEFINITION", conflicts_with = "send")]
    pub(crate) task: Option<String>,
    /// The worker that gets the text as a message
    #[arg(long, value_name = "WORKER")]
    pub(crate) send: Option<String>,
    #[command(flatten)]
    pub(crate) text: TextFlags,
    /// The launcher of an agent that names none [default: the config's]
    #[arg(long, value_name = "NAME")]
    pub(crate) launcher: Option<String>,
    /// The sandbox of each task [default: as the config says]
    #[arg(long, value_name = "NAME")]
    pub(crate) sandbox: Option<String>,
    #[command(flatten)]
    pub(crate) worktree: WorktreeFlags,
    /// The controller, by its id
    #[arg(long, value_name = "ID")]
    pub(crate) controller_id: Option<String>,
    #[command(flatten)]
    pub(crate) config: ConfigFlag,
    /// Where the tasks work
    #[arg(long, value_name = "PATH", value_parser = path())]
    pub(crate) cwd: Option<PathBuf>,
}

impl FiringFlagsArgs {
    /// What happens to firings that overlap.
    pub(crate) fn overlap(&self) -> Overlap {
        Overlap::parse(&self.overlap).unwrap_or(Overlap::Queue)
    }
}

/// One schedule or trigger, and where it is.
#[derive(Debug, Args)]
pub(crate) struct OneStarter {
    /// Its name
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) cwd: CwdFlag,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}
