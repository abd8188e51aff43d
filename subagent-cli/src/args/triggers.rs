//! Flags of `trigger`.

use clap::{Args, Subcommand};
use subagent_protocol::trigger::EndStatus;

use super::numbers::{age, time_or_seconds};
use super::starts::{OneStarter, StartFlags};
use super::{CwdFlag, JsonFlag};

/// `subagent trigger ...`
#[allow(missing_docs)]
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub enum TriggerCommand {
    Add(Box<TriggerAdd>),
    List(TriggerList),
    Show(TriggerShow),
    Log(TriggerLog),
    Pause(TriggerPause),
    Resume(TriggerResume),
    Run(TriggerRun),
    Fire(TriggerFire),
    Rm(TriggerRm),
}

impl TriggerCommand {
    /// Whether it was given `--json`.
    #[must_use]
    pub const fn json(&self) -> bool {
        match self {
            Self::Add(args) => args.json.json,
            Self::List(args) => args.json.json,
            Self::Show(TriggerShow { one })
            | Self::Log(TriggerLog { one })
            | Self::Pause(TriggerPause { one })
            | Self::Resume(TriggerResume { one })
            | Self::Run(TriggerRun { one })
            | Self::Fire(TriggerFire { one, .. })
            | Self::Rm(TriggerRm { one }) => one.json.json,
        }
    }
}

/// Add a trigger: start a task, or send a message, on events
///
/// AGENT is a launcher or a definition of an agent. Each firing starts a task for it, with the rules, budgets, sandbox and
/// worktree that hold then, and with the environment in which the daemon was started. With --send the trigger sends a
/// message to a worker instead.
///
/// `subagent trigger fire` fires any trigger. Without --after, --on-command, --watch and --webhook nothing else does.
/// {{payload}} in the text is replaced by the payload of the occurrence, marked as data.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent trigger add pushed codex 'Review the commits of this push: {{payload}}'
  subagent trigger add fixer --after nightly-build --status failed \\
      codex 'Find out why this task failed, and fix it: {{payload}}'
  subagent trigger add upstream --changed --every 10m \\
      --on-command 'cd / && git ls-remote https://example.org/app.git main' \\
      codex 'Merge origin/main and run the tests.'
  subagent trigger add docs --watch 'docs/**/*.md' --debounce 10 \\
      codex 'Check the links in these files: {{payload}}'
  subagent trigger add ci --webhook codex 'Find out why this job failed: {{payload}}'")]
pub struct TriggerAdd {
    /// Its name: letters, digits, `-`, `_` and `.`
    #[arg(value_name = "NAME")]
    pub name: String,
    /// What a firing starts, and how overlaps are handled.
    #[command(flatten)]
    pub start: StartFlags,
    /// Fire at the end of a task, or of each turn of a worker
    #[arg(long, value_name = "WORKER", group = "source")]
    pub after: Option<String>,
    /// Fire only for ends with this status
    #[arg(long = "status", value_name = "STATUS", requires = "after", value_parser = ["completed", "failed", "canceled"])]
    pub end_status: Option<String>,
    /// Run a command line in an interval, in the folder of --cwd
    #[arg(long, value_name = "COMMAND", group = "source", requires = "changed")]
    pub on_command: Option<String>,
    /// Fire when the output of the command has changed
    #[arg(long, requires = "on_command")]
    pub changed: bool,
    /// The interval of the command, as 30s or 5m [default: 5m]
    #[arg(long, value_name = "TIME", value_parser = age, requires = "on_command")]
    pub every: Option<u64>,
    /// How long the command may take, at most 1h [default: 60s]
    #[arg(long, value_name = "TIME", value_parser = age, requires = "on_command")]
    pub timeout: Option<u64>,
    /// Fire when a file with this path has changed, below the folder of --cwd, as 'src/**' (several)
    #[arg(long, value_name = "GLOB", group = "source")]
    pub watch: Vec<String>,
    /// Wait until no file has changed for this time, in seconds or as 1m [default: 2s]
    #[arg(long, value_name = "TIME", value_parser = time_or_seconds, requires = "watch")]
    pub debounce: Option<f64>,
    /// Fire on a POST to `subagent panel` with the token that is shown once
    #[arg(long, group = "source")]
    pub webhook: bool,
    /// Which form of output.
    #[command(flatten)]
    pub json: JsonFlag,
}

impl TriggerAdd {
    /// The only ends that count.
    #[must_use]
    pub fn end_status(&self) -> Option<EndStatus> {
        self.end_status.as_deref().and_then(EndStatus::parse)
    }
}

/// List triggers with their newest firing
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  subagent trigger list")]
pub struct TriggerList {
    /// `--cwd`, a folder of the workspace.
    #[command(flatten)]
    pub cwd: CwdFlag,
    /// Which form of output.
    #[command(flatten)]
    pub json: JsonFlag,
}

/// Show one trigger
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  subagent trigger show pushed")]
pub struct TriggerShow {
    /// The name of the trigger, and its workspace.
    #[command(flatten)]
    pub one: OneStarter,
}

/// Show what became of the newest occurrences, newest first
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  subagent trigger log pushed")]
pub struct TriggerLog {
    /// The name of the trigger, and its workspace.
    #[command(flatten)]
    pub one: OneStarter,
}

/// Keep a trigger from firing
///
/// What it has started goes on. What waits for an earlier firing is left out.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  subagent trigger pause pushed")]
pub struct TriggerPause {
    /// The name of the trigger, and its workspace.
    #[command(flatten)]
    pub one: OneStarter,
}

/// Let a paused trigger fire again, from now on
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  subagent trigger resume pushed")]
pub struct TriggerResume {
    /// The name of the trigger, and its workspace.
    #[command(flatten)]
    pub one: OneStarter,
}

/// Fire a trigger once, now, without a payload
///
/// Its rule for overlaps holds. A trigger that is paused fires as well, and stays paused.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  subagent trigger run pushed")]
pub struct TriggerRun {
    /// The name of the trigger, and its workspace.
    #[command(flatten)]
    pub one: OneStarter,
}

/// Fire a trigger, with the payload that stdin holds
///
/// A payload is text of at most 64 KiB. A trigger that is paused does not fire.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  git log --oneline -5 | subagent trigger fire pushed
  subagent trigger fire pushed --occurrence \"$CI_JOB_ID\" < job.json")]
pub struct TriggerFire {
    /// The name of the trigger, and its workspace.
    #[command(flatten)]
    pub one: OneStarter,
    /// Identifier of the occurrence: the trigger fires once for each
    #[arg(long, value_name = "ID", allow_hyphen_values = true)]
    pub occurrence: Option<String>,
}

/// Remove a trigger, and the log of its firings
///
/// What it has started goes on.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  subagent trigger rm pushed")]
pub struct TriggerRm {
    /// The name of the trigger, and its workspace.
    #[command(flatten)]
    pub one: OneStarter,
}
