//! `schedule`: what is started at which times.

use jiff::tz::TimeZone;
use serde_json::{Value, json};
use subagent_protocol::api::{
    AddSchedule, ChangeSchedule, RunTask, ScheduledMessage, ScheduledWork, TaskOverrides,
};
use subagent_protocol::schedule::When;

use super::text_source::TextSources;
use crate::args::schedules::{OneSchedule, ScheduleAdd, ScheduleCommand, ScheduleList};
use crate::client::{Ask, Client, Query, block_on, segment};
use crate::context::{Context, present, present_path};
use crate::failure::{Failure, Result};
use crate::output::{Outcome, human, text};
use crate::tasks::{Giver, Wish};

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
    let (missed, overlap) = (args.missed(), args.overlap());
    let when = match (args.cron, args.every, args.at) {
        (Some(line), ..) => When::Cron(line),
        (_, Some(seconds), _) => When::EverySeconds(seconds),
        (.., Some(time)) => When::At(time),
        (None, None, None) => {
            return Err(Failure::input("say when it fires: --cron, --every or --at"));
        }
    };
    let timezone = present(args.timezone).or_else(|| TimeZone::system().iana_name().map(str::to_owned));
    let sources = TextSources {
        flag: args.text,
        file: present_path(args.text_file),
        stdin: args.text_stdin,
        argument: args.prompt,
        ..TextSources::default()
    };
    let wish = Wish {
        sandbox: present(args.sandbox),
        cwd: present_path(args.cwd),
        config: present_path(args.config.config),
        launcher: present(args.launcher),
        agents: None,
        controller_id: present(args.controller_id),
    };
    let loaded = context.config(wish.config.as_deref(), wish.cwd.as_deref())?;
    let mut giver = Giver::new(context, wish);
    let mut definition = present(args.task);
    if let Some(agent) = present(args.agent) {
        // As `run` and `worker start` read it.
        match loaded.config.launcher(&agent).is_ok() {
            true => giver.use_launcher(agent),
            false => definition = Some(agent),
        }
    } else if definition.is_none() && args.send.is_none() {
        let message = "say what it starts: AGENT PROMPT, --task DEFINITION or --send WORKER";
        return Err(Failure::input(message));
    }
    let text = sources.read()?.text;
    let mut client = giver.client()?;
    let data: Value = block_on(async move {
        let mut place = giver.place(&mut client).await?;
        // The daemon gives the agents its own.
        place.env.clear();
        let choice = place.choice.clone();
        let work = match present(args.send) {
            Some(worker) => ScheduledWork::Send(ScheduledMessage { worker, text }),
            None => ScheduledWork::Task(Box::new(RunTask {
                agent: definition,
                prompt: text,
                description: Some(format!("schedule {}", args.name)),
                name: None,
                mode: Some(subagent_protocol::api::TaskMode::Background),
                metadata: serde_json::Map::from_iter([("schedule".to_owned(), json!(args.name))]),
                overrides: TaskOverrides::default(),
                worktree: args.worktree.choice(),
                manager: Some(Box::new(place)),
            })),
        };
        let request = AddSchedule {
            choice,
            name: args.name,
            when,
            timezone: timezone.unwrap_or_else(|| "UTC".to_owned()),
            missed,
            overlap,
            max_failures: args.max_failures,
            work,
        };
        client.ask(&Ask::change("/v1/schedules", &request)?).await
    })?;
    Ok(shown("schedule.added", data))
}

fn list(args: &ScheduleList, context: &Context) -> Result<Outcome> {
    let workspace = context.workspace(args.cwd.cwd.as_deref())?;
    let data = if super::has_state(&workspace) {
        let mut client = Client::new(context, &workspace);
        block_on(async move { client.ask(&Ask::get(Query::new("/v1/schedules"))).await })?
    } else {
        json!({"items": [], "count": 0})
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
    let workspace = context.workspace(one.cwd.cwd.as_deref())?;
    let mut client = Client::new(context, &workspace);
    block_on(async move { client.ask(&Ask::get(Query::new(path(&one.name, what)))).await })
}

fn change(one: &OneSchedule, what: &str, context: &Context) -> Result<Value> {
    let workspace = context.workspace(one.cwd.cwd.as_deref())?;
    let mut client = Client::new(context, &workspace);
    let ask = Ask::change(path(&one.name, &format!("/{what}")), &ChangeSchedule {})?;
    block_on(async move { client.ask(&ask).await })
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
    if let Some(shown) = human::work(&item["work"]) {
        item["work"] = shown.into();
    }
    if let Some(message) = item["error"]["message"].as_str().map(str::to_owned) {
        item["error"] = message.into();
    }
    if let Some(status) = item["lastFiring"]["status"].as_str().map(str::to_owned) {
        item["last"] = status.into();
    }
}
