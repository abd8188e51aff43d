//! `schedule add`: what is started at which times.

use clap::Args;
use jiff::tz::TimeZone;
use subagent_protocol::api::AddSchedule;
use subagent_protocol::schedule::{Missed, When};

use super::schedules::SCHEDULES;
use crate::command_line::flags::JsonFlag;
use crate::command_line::numbers::age;
use crate::commands::firing;
use crate::commands::firing::flags::FiringFlagsArgs;
use crate::context::{CliContext, present};
use crate::failure::{Failure, Result};
use crate::output::CliOutcome;

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
pub(crate) struct ScheduleAddArgs {
    /// Its name: letters, digits, `-`, `_` and `.`
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) start: FiringFlagsArgs,
    /// A cron line of five fields: minute, hour, day, month, weekday
    #[arg(long, value_name = "LINE", conflicts_with_all = ["every", "at"])]
    pub(crate) cron: Option<String>,
    /// An interval, as 30m, 12h or 7d, counted from now
    #[arg(long, value_name = "TIME", value_parser = age, conflicts_with = "at")]
    pub(crate) every: Option<u64>,
    /// One time, as 2026-12-01T09:00; with an offset, as 2026-12-01T09:00+01:00, in any time zone
    #[arg(long, value_name = "TIME")]
    pub(crate) at: Option<String>,
    /// The time zone, as Europe/Berlin [default: the system's]
    #[arg(long, value_name = "ZONE")]
    pub(crate) timezone: Option<String>,
    /// Times at which no daemon was there
    #[arg(long, value_name = "WHAT", default_value = "once", value_parser = ["skip", "once", "all"])]
    pub(crate) missed: String,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

impl ScheduleAddArgs {
    /// What happens to missed times.
    pub(crate) fn missed(&self) -> Missed {
        Missed::parse(&self.missed).unwrap_or(Missed::Once)
    }
}

pub(super) fn run(args: ScheduleAddArgs, context: &CliContext) -> Result<CliOutcome> {
    let missed = args.missed();
    let (overlap, max_failures) = (args.start.overlap(), args.start.max_failures);
    let when = match (args.cron, args.every, args.at) {
        (Some(line), ..) => When::Cron(line),
        (_, Some(seconds), _) => When::EverySeconds(seconds),
        (.., Some(time)) => When::At(time),
        (None, None, None) => {
            return Err(Failure::input("say when it fires: --cron, --every or --at"));
        }
    };
    let timezone = present(args.timezone).or_else(|| TimeZone::system().iana_name().map(str::to_owned));
    let name = args.name;
    let of = ("schedule", name.as_str());
    let data = firing::add(args.start, of, context, SCHEDULES.path, |choice, work| AddSchedule {
        choice,
        name: name.clone(),
        when,
        timezone: timezone.unwrap_or_else(|| "UTC".to_owned()),
        missed,
        overlap,
        max_failures,
        work,
    })?;
    Ok(SCHEDULES.shown("schedule.added", data))
}
