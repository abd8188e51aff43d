//! `schedule`: what is started at which times.

use jiff::tz::TimeZone;
use serde_json::{Value, json};
use subagent_protocol::api::{AddSchedule, ChangeSchedule};
use subagent_protocol::schedule::When;

use super::starts;
use crate::args::schedules::{OneSchedule, ScheduleAdd, ScheduleCommand, ScheduleList};
use crate::client::{Ask, Query, segment};
use crate::context::{Context, present};
use crate::failure::{Failure, Result};
use crate::output::{Outcome, human, text};

/// What people see of one schedule.
const FIELDS: [&str; 12] = [
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
];

pub(super) fn run(command: ScheduleCommand, context: &Context) -> Result<Outcome> {
    match command {
        ScheduleCommand::Add(args) => add(*args, context),
        ScheduleCommand::List(args) => list(&args, context),
        ScheduleCommand::Show(args) => {
            let data = look(&args.one, "", context)?;
            Ok(shown("schedule.shown", data))
        }
        ScheduleCommand::Log(args) => {
            let data = look(&args.one, "/log", context)?;
            let mut seen = data.clone();
            seen["items"].as_array_mut().into_iter().flatten().for_each(readable);
            let keys = ["at", "status", "workerId", "turnId", "leftOut", "error"];
            let lines = text::rows(&seen, &keys, "");
            Ok(Outcome::list("schedule.log", data, lines, "(no firings)"))
        }
        ScheduleCommand::Pause(args) => Ok(shown("schedule.paused", change(&args.one, "pause", context)?)),
        ScheduleCommand::Resume(args) => Ok(shown("schedule.resumed", change(&args.one, "resume", context)?)),
        ScheduleCommand::Run(args) => {
            let data = change(&args.one, "run", context)?;
            let mut seen = data.clone();
            readable(&mut seen);
            let lines = text::fields(&seen, &["schedule", "at", "status", "workerId", "turnId", "error"]);
            Ok(Outcome::report("schedule.fired", data, lines))
        }
        ScheduleCommand::Rm(args) => {
            let data = change(&args.one, "remove", context)?;
            let lines = text::fields(&data, &["name"]);
            Ok(Outcome::report("schedule.removed", data, lines))
        }
    }
}

fn add(args: ScheduleAdd, context: &Context) -> Result<Outcome> {
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
    let data = starts::add(args.start, of, context, "/v1/schedules", |choice, work| AddSchedule {
        choice,
        name: name.clone(),
        when,
        timezone: timezone.unwrap_or_else(|| "UTC".to_owned()),
        missed,
        overlap,
        max_failures,
        work,
    })?;
    Ok(shown("schedule.added", data))
}

fn list(args: &ScheduleList, context: &Context) -> Result<Outcome> {
    let cwd = args.cwd.cwd.as_deref();
    let data = match super::has_state(&context.workspace(cwd)?) {
        true => starts::ask(cwd, &Ask::get(Query::new("/v1/schedules")), context)?,
        false => json!({"items": [], "count": 0}),
    };
    let mut seen = data.clone();
    seen["items"].as_array_mut().into_iter().flatten().for_each(readable);
    let keys = ["name", "when", "timezone", "nextAt", "attendant", "paused", "last", "error"];
    let lines = text::rows(&seen, &keys, "");
    Ok(Outcome::list("schedule.listed", data, lines, "(no schedules)"))
}

fn path(name: &str, what: &str) -> String {
    format!("/v1/schedules/{}{what}", segment(name))
}

fn look(one: &OneSchedule, what: &str, context: &Context) -> Result<Value> {
    starts::ask(one.cwd.cwd.as_deref(), &Ask::get(Query::new(path(&one.name, what))), context)
}

fn change(one: &OneSchedule, what: &str, context: &Context) -> Result<Value> {
    let ask = Ask::change(path(&one.name, &format!("/{what}")), &ChangeSchedule {})?;
    starts::ask(one.cwd.cwd.as_deref(), &ask, context)
}

fn shown(kind: &'static str, data: Value) -> Outcome {
    let mut seen = data.clone();
    readable(&mut seen);
    let lines = text::fields(&seen, &FIELDS);
    Outcome::report(kind, data, lines)
}

/// Makes one text of what has several parts.
fn readable(item: &mut Value) {
    if let Some(shown) = human::when(&item["when"]) {
        item["when"] = shown.into();
    }
    starts::readable(item);
}
