//! Flags of `hook`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{ConfigFlag, CwdFlag, JsonFlag, path};

/// `subagent hook ...`
#[allow(missing_docs)]
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub enum HookCommand {
    List(HookList),
    Test(Box<HookTest>),
    Trust(HookTrust),
}

impl HookCommand {
    /// Whether it was given `--json`.
    #[must_use]
    pub const fn json(&self) -> bool {
        match self {
            Self::List(args) => args.json.json,
            Self::Test(args) => args.json.json,
            Self::Trust(args) => args.json.json,
        }
    }
}

/// List the hooks that apply here: of your config file, of the project, of definitions
///
/// For each its event, matcher, command, file, and whether it runs: hooks of a project or a definition run only while you
/// trust the content of their file.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent hook list
  subagent hook list --agent reviewer --json")]
pub struct HookList {
    /// Of the definitions only this one
    #[arg(long, value_name = "NAME")]
    pub agent: Option<String>,
    /// `--cwd`, a folder of the workspace.
    #[command(flatten)]
    pub cwd: CwdFlag,
    /// `--config`, the path of the config file.
    #[command(flatten)]
    pub config: ConfigFlag,
    /// Which form of output.
    #[command(flatten)]
    pub json: JsonFlag,
}

/// Run the hooks of an event with a sample, and show what each says
///
/// The hooks are those that a worker has that is started here now. Hooks that are not trusted are shown and do not run. No
/// worker is started and nothing is decided.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent hook test PreToolUse --tool Bash --input '{\"command\": \"rm -rf build\"}'
  subagent hook test Stop --agent reviewer --json")]
pub struct HookTest {
    /// The event: SessionStart, UserPromptSubmit, PreToolUse, PostToolUse, ApprovalRequested, SubagentStart, SubagentStop,
    /// Stop or Notification
    #[arg(value_name = "EVENT")]
    pub event: String,
    /// The tool, or what else matchers of the event are about [default: Bash for a tool]
    #[arg(long, value_name = "NAME")]
    pub tool: Option<String>,
    /// The tool's arguments as a JSON object; of UserPromptSubmit `{"prompt": "..."}`
    #[arg(long, value_name = "JSON")]
    pub input: Option<String>,
    /// With the hooks of this definition too
    #[arg(long, value_name = "NAME")]
    pub agent: Option<String>,
    /// `--cwd`, a folder of the workspace.
    #[command(flatten)]
    pub cwd: CwdFlag,
    /// `--config`, the path of the config file.
    #[command(flatten)]
    pub config: ConfigFlag,
    /// Which form of output.
    #[command(flatten)]
    pub json: JsonFlag,
}

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
pub struct HookTrust {
    /// The file
    #[arg(value_name = "FILE", value_parser = path(), required_unless_present = "list")]
    pub file: Option<PathBuf>,
    /// Do not ask
    #[arg(long)]
    pub yes: bool,
    /// List the files whose hooks are trusted
    #[arg(long, conflicts_with_all = ["file", "yes", "remove"])]
    pub list: bool,
    /// Trust no content of the file any more
    #[arg(long, conflicts_with = "yes")]
    pub remove: bool,
    /// `--cwd`, a folder of the workspace.
    #[command(flatten)]
    pub cwd: CwdFlag,
    /// Which form of output.
    #[command(flatten)]
    pub json: JsonFlag,
}
