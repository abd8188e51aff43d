//! `trigger`: what is started at which occurrences.

use std::io::IsTerminal as _;
use std::path::Path;

use serde_json::{Value, json};
use subagent_protocol::api::{AddTrigger, ChangeTrigger, FireTrigger};
use subagent_protocol::trigger::TriggerSource;

use super::starts;
use crate::args::triggers::{OneTrigger, TriggerAdd, TriggerCommand, TriggerFire, TriggerList};
use crate::client::{Ask, Query, segment};
use crate::context::{Context, present};
use crate::failure::Result;
use crate::input::read_text;
use crate::output::{Outcome, text};

/// What people see of one trigger.
const FIELDS: [&str; 9] =
    ["name", "source", "attendant", "overlap", "maxFailures", "failures", "paused", "error", "work"];
/// What they see of a firing.
const FIRING: [&str; 7] = ["schedule", "at", "occurrence", "status", "workerId", "turnId", "error"];

pub(super) fn run(command: TriggerCommand, context: &Context) -> Result<Outcome> {
    match command {
        TriggerCommand::Add(args) => add(*args, context),
        TriggerCommand::List(args) => list(&args, context),
        TriggerCommand::Show(args) => Ok(shown("trigger.shown", look(&args.one, "", context)?)),
        TriggerCommand::Log(args) => {
            let data = look(&args.one, "/log", context)?;
            let mut seen = data.clone();
            seen["items"].as_array_mut().into_iter().flatten().for_each(readable);
            let lines = text::rows(&seen, &FIRING[1..], "");
            Ok(Outcome::list("trigger.log", data, lines, "(no firings)"))
        }
        TriggerCommand::Pause(args) => Ok(shown("trigger.paused", change(&args.one, "pause", context)?)),
        TriggerCommand::Resume(args) => Ok(shown("trigger.resumed", change(&args.one, "resume", context)?)),
        TriggerCommand::Run(args) => Ok(fired(change(&args.one, "run", context)?)),
        TriggerCommand::Fire(args) => fire(args, context),
        TriggerCommand::Rm(args) => {
            let data = change(&args.one, "remove", context)?;
            let lines = text::fields(&data, &["name"]);
            Ok(Outcome::report("trigger.removed", data, lines))
        }
    }
}

fn add(args: TriggerAdd, context: &Context) -> Result<Outcome> {
    let (overlap, max_failures) = (args.start.overlap(), args.start.max_failures);
    let status = args.end_status();
    let source = match present(args.after) {
        Some(worker) => TriggerSource::After { worker, status },
        None => TriggerSource::Request {},
    };
    let name = args.name;
    let of = ("trigger", name.as_str());
    let data = starts::add(args.start, of, context, "/v1/triggers", |choice, work| AddTrigger {
        choice,
        name: name.clone(),
        source,
        overlap,
        max_failures,
        work,
    })?;
    Ok(shown("trigger.added", data))
}

fn list(args: &TriggerList, context: &Context) -> Result<Outcome> {
    let cwd = args.cwd.cwd.as_deref();
    let data = match super::has_state(&context.workspace(cwd)?) {
        true => starts::ask(cwd, &Ask::get(Query::new("/v1/triggers")), context)?,
        false => json!({"items": [], "count": 0}),
    };
    let mut seen = data.clone();
    seen["items"].as_array_mut().into_iter().flatten().for_each(readable);
    let keys = ["name", "source", "attendant", "paused", "last", "error"];
    let lines = text::rows(&seen, &keys, "");
    Ok(Outcome::list("trigger.listed", data, lines, "(no triggers)"))
}

fn fire(args: TriggerFire, context: &Context) -> Result<Outcome> {
    let payload = match std::io::stdin().is_terminal() {
        true => None,
        false => Some(read_text(Path::new("-"))?),
    };
    let request = FireTrigger { payload, occurrence: args.occurrence };
    let ask = Ask::change(path(&args.one.name, "/fire"), &request)?;
    Ok(fired(starts::ask(args.one.cwd.cwd.as_deref(), &ask, context)?))
}

fn path(name: &str, what: &str) -> String {
    format!("/v1/triggers/{}{what}", segment(name))
}

fn look(one: &OneTrigger, what: &str, context: &Context) -> Result<Value> {
    starts::ask(one.cwd.cwd.as_deref(), &Ask::get(Query::new(path(&one.name, what))), context)
}

fn change(one: &OneTrigger, what: &str, context: &Context) -> Result<Value> {
    let ask = Ask::change(path(&one.name, &format!("/{what}")), &ChangeTrigger {})?;
    starts::ask(one.cwd.cwd.as_deref(), &ask, context)
}

fn fired(data: Value) -> Outcome {
    let mut seen = data.clone();
    readable(&mut seen);
    let lines = text::fields(&seen, &FIRING);
    Outcome::report("trigger.fired", data, lines)
}

fn shown(kind: &'static str, data: Value) -> Outcome {
    let mut seen = data.clone();
    readable(&mut seen);
    let lines = text::fields(&seen, &FIELDS);
    Outcome::report(kind, data, lines)
}

fn readable(item: &mut Value) {
    let source = &item["source"];
    let after = &source["after"];
    let shown = match (after["worker"].as_str(), after["status"].as_str()) {
        (Some(worker), Some(status)) => Some(format!("after {worker} ({status})")),
        (Some(worker), None) => Some(format!("after {worker}")),
        _ if source["request"].is_object() => Some("requests".to_owned()),
        _ => None,
    };
    if let Some(shown) = shown {
        item["source"] = shown.into();
    }
    starts::readable(item);
}
