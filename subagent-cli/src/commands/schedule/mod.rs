//! `schedule`: what is started at which times.

use jiff::tz::TimeZone;
use serde_json::Value;
use subagent_protocol::api::AddSchedule;
use subagent_protocol::schedule::When;

use crate::args::schedules::{ScheduleAdd, ScheduleCommand};
use crate::commands::firing::{self, Starters};
use crate::context::{CliContext, present};
use crate::failure::{Failure, Result};
use crate::output::{CliOutcome, human};

const SCHEDULES: Starters = Starters {
    path: "/v1/schedules",
    fields: &[
        "name",
        "when",
        "timezone",
        "nextAt",
        "attendant",
        "missed",
        "overlap",
        "maxFailures",
        "failures",
        "paused",
        "error",
        "work",
        "declaredIn",
    ],
    columns: &["name", "when", "timezone", "nextAt", "attendant", "paused", "last", "error", "declaredIn"],
    log: &["at", "status", "workerId", "turnId", "leftOut", "error"],
    firing: &["schedule", "at", "status", "workerId", "turnId", "error"],
    readable,
};

pub(crate) fn run(command: ScheduleCommand, context: &CliContext) -> Result<CliOutcome> {
    let get = |one, what| SCHEDULES.get(one, what, context);
    let change = |one, what| SCHEDULES.change(one, what, context);
    Ok(match command {
        ScheduleCommand::Add(args) => add(*args, context)?,
        ScheduleCommand::List(args) => {
            let words = ("schedule.listed", "(no schedules)");
            SCHEDULES.list(args.cwd.cwd.as_deref(), words, context)?
        }
        ScheduleCommand::Show(args) => SCHEDULES.shown("schedule.shown", get(&args.one, "")?),
        ScheduleCommand::Log(args) => SCHEDULES.logged("schedule.log", get(&args.one, "log")?),
        ScheduleCommand::Pause(args) => SCHEDULES.shown("schedule.paused", change(&args.one, "pause")?),
        ScheduleCommand::Resume(args) => SCHEDULES.shown("schedule.resumed", change(&args.one, "resume")?),
        ScheduleCommand::Run(args) => SCHEDULES.fired("schedule.fired", change(&args.one, "run")?),
        ScheduleCommand::Rm(args) => firing::removed("schedule.removed", change(&args.one, "remove")?),
    })
}

fn add(args: ScheduleAdd, context: &CliContext) -> Result<CliOutcome> {
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

fn readable(item: &mut Value) {
    if let Some(shown) = human::when(&item["when"]) {
        item["when"] = shown.into();
    }
}
