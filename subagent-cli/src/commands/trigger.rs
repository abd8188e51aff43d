//! `trigger`: what is started on which events.

use std::io::IsTerminal as _;
use std::path::Path;

use serde_json::Value;
use subagent_protocol::api::{AddTrigger, FireTrigger};
use subagent_protocol::trigger::TriggerSource;

use super::starts::{self, Starters};
use crate::args::triggers::{TriggerAdd, TriggerCommand, TriggerFire};
use crate::context::{CliContext, present};
use crate::failure::Result;
use crate::input::read_text;
use crate::output::{CliOutcome, human};

const TRIGGERS: Starters = Starters {
    path: "/v1/triggers",
    fields: &["name", "source", "attendant", "overlap", "maxFailures", "failures", "paused", "error", "work"],
    columns: &["name", "source", "attendant", "paused", "last", "error"],
    log: &["at", "occurrence", "status", "workerId", "turnId", "error"],
    firing: &["schedule", "at", "occurrence", "status", "workerId", "turnId", "error"],
    readable,
};

pub(super) fn run(command: TriggerCommand, context: &CliContext) -> Result<CliOutcome> {
    let get = |one, what| TRIGGERS.get(one, what, context);
    let change = |one, what| TRIGGERS.change(one, what, context);
    Ok(match command {
        TriggerCommand::Add(args) => add(*args, context)?,
        TriggerCommand::List(args) => {
            let words = ("trigger.listed", "(no triggers)");
            TRIGGERS.list(args.cwd.cwd.as_deref(), words, context)?
        }
        TriggerCommand::Show(args) => TRIGGERS.shown("trigger.shown", get(&args.one, "")?),
        TriggerCommand::Log(args) => TRIGGERS.logged("trigger.log", get(&args.one, "log")?),
        TriggerCommand::Pause(args) => TRIGGERS.shown("trigger.paused", change(&args.one, "pause")?),
        TriggerCommand::Resume(args) => TRIGGERS.shown("trigger.resumed", change(&args.one, "resume")?),
        TriggerCommand::Run(args) => TRIGGERS.fired("trigger.fired", change(&args.one, "run")?),
        TriggerCommand::Fire(args) => TRIGGERS.fired("trigger.fired", fire(args, context)?),
        TriggerCommand::Rm(args) => starts::removed("trigger.removed", change(&args.one, "remove")?),
    })
}

fn add(args: TriggerAdd, context: &CliContext) -> Result<CliOutcome> {
    let (overlap, max_failures) = (args.start.overlap(), args.start.max_failures);
    let status = args.end_status();
    let source = match present(args.after) {
        Some(worker) => TriggerSource::After { worker, status },
        None => TriggerSource::Request {},
    };
    let name = args.name;
    let of = ("trigger", name.as_str());
    let data = starts::add(args.start, of, context, TRIGGERS.path, |choice, work| AddTrigger {
        choice,
        name: name.clone(),
        source,
        overlap,
        max_failures,
        work,
    })?;
    Ok(TRIGGERS.shown("trigger.added", data))
}

fn fire(args: TriggerFire, context: &CliContext) -> Result<Value> {
    let payload = match std::io::stdin().is_terminal() {
        true => None,
        false => Some(read_text(Path::new("-"))?),
    };
    let request = FireTrigger { payload, occurrence: args.occurrence };
    TRIGGERS.send(&args.one, "fire", &request, context)
}

fn readable(item: &mut Value) {
    if let Some(shown) = human::source(&item["source"]) {
        item["source"] = shown.into();
    }
}
