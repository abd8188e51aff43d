//! Flags of `schedule`.

use clap::{Args, Subcommand};
use subagent_protocol::schedule::Missed;

use super::numbers::age;
use super::starts::{OneStarter, StartFlags};
use super::{CwdFlag, JsonFlag};

/// `subagent schedule ...`
#[allow(missing_docs)]
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub enum ScheduleCommand {
    Add(Box<ScheduleAdd>),
    List(ScheduleList),
    Show(ScheduleShow),
    Log(ScheduleLog),
    Pause(SchedulePause),
    Resume(ScheduleResume),
    Run(ScheduleRun),
    Rm(ScheduleRm),
}

impl ScheduleCommand {
    /// Whether it was given `--json`.
    #[must_use]
    pub const fn json(&self) -> bool {
        match self {
            Self::Add(args) => args.json.json,
            Self::List(args) => args.json.json,
            Self::Show(ScheduleShow { one })
            | Self::Log(ScheduleLog { one })
            | Self::Pause(SchedulePause { one })
            | Self::Resume(ScheduleResume { one })
            | Self::Run(ScheduleRun { one })
            | Self::Rm(ScheduleRm { one }) => one.json.json,
        }
    }
}

/// Add a schedule: start a task, or send a message, at certain times
///
/// AGENT is a launcher or a definition of an agent. Each firing starts a task for it, with the rules, budgets, sandbox and
/// worktree that hold then, and with the environment in which the daemon was started. With --send the schedule sends a
/// message to a worker instead.
///
/// Each time fires at most once. A local time that a change of the clocks repeats fires at its first occurrence, and one
/// that does not exist fires as much later as the clocks go forward.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent schedule add nightly --cron '0 2 * * 1-5' --timezone Europe/Berlin \\
      codex 'Update the dependencies and run the tests.'
  subagent schedule add triage --every 30m --task triage --text 'Label new issues.'
  subagent schedule add remind --at 2026-12-01T09:00 --send codex-1 --text 'Go on.'")]
pub struct ScheduleAdd {
    /// Its name: letters, digits, `-`, `_` and `.`
    #[arg(value_name = "NAME")]
    pub name: String,
    /// What a firing starts, and how overlaps are handled.
    #[command(flatten)]
    pub start: StartFlags,
    /// A cron line of five fields: minute, hour, day, month, weekday
    #[arg(long, value_name = "LINE", conflicts_with_all = ["every", "at"])]
    pub cron: Option<String>,
    /// An interval, as 30m, 12h or 7d, counted from now
    #[arg(long, value_name = "TIME", value_parser = age, conflicts_with = "at")]
    pub every: Option<u64>,
    /// One time, as 2026-12-01T09:00; with an offset, as 2026-12-01T09:00+01:00, in any time zone
    #[arg(long, value_name = "TIME")]
    pub at: Option<String>,
    /// The time zone, as Europe/Berlin [default: the system's]
    #[arg(long, value_name = "ZONE")]
    pub timezone: Option<String>,
    /// Times at which no daemon was there
    #[arg(long, value_name = "WHAT", default_value = "once", value_parser = ["skip", "once", "all"])]
    pub missed: String,
    /// Which form of output.
    #[command(flatten)]
    pub json: JsonFlag,
}

impl ScheduleAdd {
    /// What happens to missed times.
    #[must_use]
    pub fn missed(&self) -> Missed {
        Missed::parse(&self.missed).unwrap_or(Missed::Once)
    }
}

/// List schedules with their next time, and who will be there to fire them
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  subagent schedule list")]
pub struct ScheduleList {
    /// `--cwd`, a folder of the workspace.
    #[command(flatten)]
    pub cwd: CwdFlag,
    /// Which form of output.
    #[command(flatten)]
    pub json: JsonFlag,
}

/// Show one schedule
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  subagent schedule show nightly")]
pub struct ScheduleShow {
    /// The name of the schedule, and its workspace.
    #[command(flatten)]
    pub one: OneStarter,
}

/// Show what became of the newest times of a schedule, newest first
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  subagent schedule log nightly")]
pub struct ScheduleLog {
    /// The name of the schedule, and its workspace.
    #[command(flatten)]
    pub one: OneStarter,
}

/// Keep a schedule from firing
///
/// What it has started goes on. What waits for an earlier firing is left out.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  subagent schedule pause nightly")]
pub struct SchedulePause {
    /// The name of the schedule, and its workspace.
    #[command(flatten)]
    pub one: OneStarter,
}

/// Let a paused schedule fire again, from now on
///
/// Times at which it was paused do not count as missed.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  subagent schedule resume nightly")]
pub struct ScheduleResume {
    /// The name of the schedule, and its workspace.
    #[command(flatten)]
    pub one: OneStarter,
}

/// Fire a schedule once, now
///
/// Its rule for overlaps holds. A schedule that is paused fires as well, and stays paused.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  subagent schedule run nightly")]
pub struct ScheduleRun {
    /// The name of the schedule, and its workspace.
    #[command(flatten)]
    pub one: OneStarter,
}

/// Remove a schedule, and the log of its firings
///
/// What it has started goes on.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  subagent schedule rm nightly")]
pub struct ScheduleRm {
    /// The name of the schedule, and its workspace.
    #[command(flatten)]
    pub one: OneStarter,
}
