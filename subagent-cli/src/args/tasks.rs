//! Flags of `task`, `tree` and `mcp`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::numbers::{age, count, time_or_seconds};
use super::{ConfigFlag, CwdFlag, JsonFlag, path};

/// `subagent task ...`
#[allow(missing_docs)]
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub enum TaskCommand {
    Run(Box<TaskRun>),
    List(TaskList),
    Show(TaskShow),
    Wait(TaskWait),
    Message(TaskMessage),
    Result(TaskResult),
    Cancel(TaskCancel),
    Merge(TaskMerge),
    Prune(TaskPrune),
}

impl TaskCommand {
    /// Whether `--json` was given.
    #[must_use]
    pub const fn json(&self) -> bool {
        match self {
            Self::Run(args) => args.json.json,
            Self::List(args) => args.json.json,
            Self::Show(args) => args.one.json.json,
            Self::Wait(args) => args.one.json.json,
            Self::Message(args) => args.json.json,
            Self::Result(args) => args.one.json.json,
            Self::Cancel(args) => args.one.json.json,
            Self::Merge(args) => args.one.json.json,
            Self::Prune(args) => args.json.json,
        }
    }
}

/// One task, and where it is.
#[derive(Debug, Args)]
pub struct OneTask {
    /// Its name or id
    #[arg(value_name = "TASK")]
    pub task: String,
    /// `--cwd`, a folder of the workspace.
    #[command(flatten)]
    pub cwd: CwdFlag,
    /// Which form of output.
    #[command(flatten)]
    pub json: JsonFlag,
}

/// Give a task to an agent and wait for its result
///
/// The agent gets the text and nothing else, and works on its own. The result is the last that it says; a long one is cut
/// (task result --full has all of it). The exit code is 1 if the task ends in another way than completed.
///
/// A question of the task, or of one below it, is shown on stderr with the command that answers it.
///
/// With --background the command returns at once; task wait and task result come back to it. A task
/// goes on when this command ends. Ctrl-C of a command that waits cancels the task.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent task run --agent explore --text 'Where is the config read?'
  subagent task run --agent reviewer --text-file task.md --name Review --background
  echo '{\"agent\": \"explore\", \"text\": \"Which tests are slow?\"}' |
      subagent task run --input - --json")]
pub struct TaskRun {
    /// The definition of the agent (see agent list)
    #[arg(long, value_name = "NAME")]
    pub agent: Option<String>,
    /// More definitions: a JSON object of names and definitions with a `prompt`
    #[arg(long, value_name = "JSON")]
    pub agents: Option<String>,
    /// The text (for complex text use --text-file or --text-stdin)
    #[arg(long)]
    pub text: Option<String>,
    /// Read the text from a file
    #[arg(long, value_name = "PATH", value_parser = path())]
    pub text_file: Option<PathBuf>,
    /// Read the text from stdin
    #[arg(long)]
    pub text_stdin: bool,
    /// The same in three to five words
    #[arg(long, value_name = "WORDS")]
    pub description: Option<String>,
    /// A name for the task [default: made of the description]
    #[arg(long)]
    pub name: Option<String>,
    /// Do not wait for the result
    #[arg(long)]
    pub background: bool,
    /// Exit with 15 at the first question, also of a task below; the task goes on
    #[arg(long, conflicts_with = "background")]
    pub no_wait_for_answers: bool,
    /// At a terminal: say which command answers instead of asking
    #[arg(long)]
    pub no_ask: bool,
    /// The launcher of an agent that names none [default: the config's]
    #[arg(long, value_name = "NAME")]
    pub launcher: Option<String>,
    /// `--worktree` and the flags that belong to it.
    #[command(flatten)]
    pub worktree: super::worktrees::WorktreeFlags,
    /// The model in place of the definition's
    #[arg(long)]
    pub model: Option<String>,
    /// Added to the agent's own prompt
    #[arg(long, value_name = "TEXT")]
    pub system_prompt: Option<String>,
    /// A tool that is not denied, of those that the agent has; can be repeated
    #[arg(long, value_name = "TOOL")]
    pub allowed_tool: Vec<String>,
    /// A tool that is denied; can be repeated
    #[arg(long, value_name = "TOOL")]
    pub disallowed_tool: Vec<String>,
    /// What it may reach: a sandbox of the config, shared_ro, isolated, shared_rw or none
    /// [default: the launcher's, else the config's]
    ///
    /// A task of an agent takes shared_ro, isolated and shared_rw alone, and never gets more than the definition gives.
    #[arg(long, value_name = "NAME")]
    pub sandbox: Option<String>,
    /// Maximum number of tool calls
    #[arg(long, value_name = "N", value_parser = count)]
    pub max_steps: Option<u64>,
    /// Maximum time of the task, as 90s, 10m, 2h
    #[arg(long, value_name = "TIME", value_parser = age)]
    pub timeout: Option<u64>,
    /// The controller that owns the task [default: the workspace's]
    #[arg(long, value_name = "ID")]
    pub controller_id: Option<String>,
    /// Read agent, text, name, ... from a JSON file, - for stdin
    #[arg(long, value_name = "PATH", value_parser = path())]
    pub input: Option<PathBuf>,
    /// The folder where the agent works [default: .]
    #[arg(long, value_name = "PATH", value_parser = path())]
    pub cwd: Option<PathBuf>,
    /// `--config`, the path of the config file.
    #[command(flatten)]
    pub config: ConfigFlag,
    /// Which form of output.
    #[command(flatten)]
    pub json: JsonFlag,
}

/// List tasks, the oldest first
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent task list
  subagent task list --parent w_0123456789 --status running --json")]
pub struct TaskList {
    /// Only those of this worker
    #[arg(long, value_name = "WORKER")]
    pub parent: Option<String>,
    /// Only those in the tree of this worker, which is no task itself
    #[arg(long, value_name = "WORKER")]
    pub root: Option<String>,
    /// Only those that are as far as one of these, separated by commas, as running,queued or completed
    #[arg(long, value_name = "STATUS")]
    pub status: Option<String>,
    /// Those that are archived: kept, but hidden
    #[arg(long)]
    pub archived: bool,
    /// All of them, also those that are archived or not inspectable
    #[arg(long, conflicts_with = "archived")]
    pub all: bool,
    /// `--cwd`, a folder of the workspace.
    #[command(flatten)]
    pub cwd: CwdFlag,
    /// Which form of output.
    #[command(flatten)]
    pub json: JsonFlag,
}

/// Show one task
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  subagent task show 'Test Runner' --json")]
pub struct TaskShow {
    /// The name or id of the task, and its workspace.
    #[command(flatten)]
    pub one: OneTask,
}

/// Wait for the end of a task
///
/// A question of the task, or of one below it, is shown on stderr with the command that answers it.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent task wait 'Test Runner'
  subagent task wait w_0123456789 --timeout 10m --json")]
pub struct TaskWait {
    /// How long to wait, as 90s, 10m, 2h; 0 for no limit
    #[arg(
        long,
        alias = "timeout-seconds",
        value_name = "TIME",
        default_value = "0",
        value_parser = time_or_seconds
    )]
    pub timeout: f64,
    /// Exit with 15 at the first question, also of a task below; the task goes on
    #[arg(long)]
    pub no_wait_for_answers: bool,
    /// At a terminal: say which command answers instead of asking
    #[arg(long)]
    pub no_ask: bool,
    /// The name or id of the task, and its workspace.
    #[command(flatten)]
    pub one: OneTask,
}

/// Send a message to the agent of a task
///
/// A task that has not begun gets it as a part of its prompt, one that runs as its next turn, one that has ended goes on
/// with it and knows what it did before. With --cancel the message is its last: what runs goes on, the message is its next
/// turn, and then it ends. One that has not begun is canceled at once, and one that has ended stays as it is.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent task message 'Test Runner' --text 'Also run the slow tests.'
  subagent task message 'Test Runner' --text 'Sum up what you have.' --cancel")]
pub struct TaskMessage {
    /// Its name or id
    #[arg(value_name = "TASK", required_unless_present = "input")]
    pub task: Option<String>,
    /// The text (for complex text use --text-file or --text-stdin)
    #[arg(long)]
    pub text: Option<String>,
    /// Read the text from a file
    #[arg(long, value_name = "PATH", value_parser = path())]
    pub text_file: Option<PathBuf>,
    /// Read the text from stdin
    #[arg(long)]
    pub text_stdin: bool,
    /// Let it be the task's last turn; one that has not begun is canceled at once
    #[arg(long)]
    pub cancel: bool,
    /// Let it go on without what it knew, if its agent cannot restore that
    #[arg(long)]
    pub allow_fresh: bool,
    /// Read task, text, cancel, allowFresh from a JSON file, - for stdin
    #[arg(long, value_name = "PATH", value_parser = path())]
    pub input: Option<PathBuf>,
    /// `--cwd`, a folder of the workspace.
    #[command(flatten)]
    pub cwd: CwdFlag,
    /// Which form of output.
    #[command(flatten)]
    pub json: JsonFlag,
}

/// Print the result of a task
///
/// A long one is cut to what its caller gets. The exit code is 1 if there is none. With --full there comes behind it what
/// was said in the tasks below it that are in no list (inspectable: false).
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent task result 'Test Runner'
  subagent task result 'Test Runner' --full > result.md")]
pub struct TaskResult {
    /// All of it, however long it is
    #[arg(long)]
    pub full: bool,
    /// The name or id of the task, and its workspace.
    #[command(flatten)]
    pub one: OneTask,
}

/// Cancel a task, and those below it
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  subagent task cancel 'Test Runner' --reason 'not needed any more'")]
pub struct TaskCancel {
    /// Why
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
    /// The name or id of the task, and its workspace.
    #[command(flatten)]
    pub one: OneTask,
}

/// Bring the files that a task changed in its worktree to your work tree
///
/// File by file, without a commit. A file that you have changed too is refused and named; all others are merged. Commit
/// with land instead if you want commits.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  subagent task merge 'Fix Login'")]
pub struct TaskMerge {
    /// The name or id of the task, and its workspace.
    #[command(flatten)]
    pub one: OneTask,
}

/// Remove tasks that are archived
///
/// Abandoned tasks are archived and kept, because they may hold work. This removes them for good,
/// with all their data. A task that has not ended is kept, and so is one with such a task below it.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent task prune --dry-run
  subagent task prune --older-than 30d --json")]
pub struct TaskPrune {
    /// Only tasks that were archived at least this long ago, as 30d, 12h, 90m or 45s
    #[arg(long, value_name = "AGE", default_value = "0s", value_parser = age)]
    pub older_than: u64,
    /// Only show what would be removed
    #[arg(long)]
    pub dry_run: bool,
    /// `--cwd`, a folder of the workspace.
    #[command(flatten)]
    pub cwd: CwdFlag,
    /// Which form of output.
    #[command(flatten)]
    pub json: JsonFlag,
}

/// Show workers and the tasks below them as a tree
///
/// Without a WORKER all that have tasks, and the tasks that a manager has given.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent tree
  subagent tree w_0123456789 --json
  subagent tree --follow")]
pub struct TreeArgs {
    /// Only what is below this worker or task, and itself
    #[arg(value_name = "WORKER")]
    pub worker: Option<String>,
    /// Show it again whenever it has changed, until nothing in it is open
    #[arg(long)]
    pub follow: bool,
    /// Also tasks that are archived or not inspectable
    #[arg(long)]
    pub all: bool,
    /// `--cwd`, a folder of the workspace.
    #[command(flatten)]
    pub cwd: CwdFlag,
    /// Which form of output.
    #[command(flatten)]
    pub json: JsonFlag,
}

/// Serve tasks and workers to an MCP client, on stdin and stdout
///
/// For programs that speak the Model Context Protocol, as Claude Code or Codex: their agent gets the tools task,
/// spawn_subagent, get_subagents and message_subagent, and may call the agents whose definitions are found from its
/// folder (see agent list). It also manages workers: list_workers, start_worker, send_message, wait_for, list_questions,
/// answer_question, stop_worker, get_events, get_diff and land.
///
/// A worker that may delegate has this server without being asked, with the first four tools.
#[derive(Debug, Args)]
#[command(mut_args = super::any_value, after_help = "\
Example:
  claude mcp add subagent -- subagent mcp")]
pub struct Mcp {
    /// Name the tools subagent_task and so on, for clients that give the tools of servers no prefix
    #[arg(long)]
    pub prefix: bool,
    /// Only these tools, separated by commas [default: all]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub tools: Vec<String>,
    /// The workspace in which tasks are run [default: .]
    #[arg(long, value_name = "PATH", value_parser = path())]
    pub cwd: Option<PathBuf>,
    /// `--config`, the path of the config file.
    #[command(flatten)]
    pub config: ConfigFlag,
}
