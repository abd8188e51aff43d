//! `trigger`: what is started on which events.

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use sha2::{Digest as _, Sha256};
use subagent_protocol::api::{AddTrigger, FireTrigger};
use subagent_protocol::ids::hex;
use subagent_protocol::trigger::{
    COMMAND_EVERY_SECONDS, COMMAND_TIMEOUT_SECONDS, DEBOUNCE_MS, TriggerSource,
};

use crate::args::triggers::{TriggerAdd, TriggerCommand, TriggerFire};
use crate::commands::firing::{self, Starters};
use crate::context::{CliContext, present};
use crate::failure::{Failure, Result};
use crate::input::read_text;
use crate::output::{CliOutcome, human};
use crate::random::random;

const TRIGGERS: Starters = Starters {
    path: "/v1/triggers",
    fields: &[
        "name",
        "source",
        "token",
        "webhookPath",
        "attendant",
        "overlap",
        "maxFailures",
        "failures",
        "paused",
        "error",
        "work",
        "declaredIn",
    ],
    columns: &["name", "source", "attendant", "paused", "last", "error", "declaredIn"],
    log: &["at", "occurrence", "status", "workerId", "turnId", "error"],
    firing: &["schedule", "at", "occurrence", "status", "workerId", "turnId", "error"],
    readable,
};

pub(crate) fn run(command: TriggerCommand, context: &CliContext) -> Result<CliOutcome> {
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
        TriggerCommand::Rm(args) => firing::removed("trigger.removed", change(&args.one, "remove")?),
    })
}

fn add(args: TriggerAdd, context: &CliContext) -> Result<CliOutcome> {
    let (overlap, max_failures) = (args.start.overlap(), args.start.max_failures);
    // A secret of 256 bits.
    let token = args.webhook.then(random::<32>).transpose()?;
    let source = source(&args, token.as_deref(), context)?;
    let name = args.name;
    let of = ("trigger", name.as_str());
    let mut data = firing::add(args.start, of, context, TRIGGERS.path, |choice, work| AddTrigger {
        choice,
        name: name.clone(),
        source,
        overlap,
        max_failures,
        work,
    })?;
    if let Some(token) = token {
        data["token"] = token.into();
        data["webhookPath"] = format!("/api/triggers/{name}").into();
    }
    Ok(TRIGGERS.shown("trigger.added", data))
}

fn source(args: &TriggerAdd, token: Option<&str>, context: &CliContext) -> Result<TriggerSource> {
    let folder = || -> Result<PathBuf> {
        let typed = args.start.cwd.as_deref().filter(|path| !path.as_os_str().is_empty());
        let path = context.env.cwd.join(typed.unwrap_or_else(|| Path::new("")));
        path.canonicalize().map_err(|error| {
            Failure::argument(format!("the folder {} cannot be used: {error}", path.display()))
        })
    };
    let (status, worker, command) = (args.end_status(), args.after.clone(), args.on_command.clone());
    Ok(match (present(worker), command, token) {
        (Some(worker), ..) => TriggerSource::After { worker, status },
        (_, Some(command), _) => TriggerSource::Command {
            command,
            cwd: folder()?,
            every_seconds: args.every.unwrap_or(COMMAND_EVERY_SECONDS),
            timeout_seconds: args.timeout.unwrap_or(COMMAND_TIMEOUT_SECONDS),
        },
        (.., Some(token)) => {
            let digest = Sha256::digest(token.as_bytes());
            TriggerSource::Webhook { token_sha256: Some(hex(&digest)) }
        }
        _ if !args.watch.is_empty() => TriggerSource::Files {
            folder: folder()?,
            globs: args.watch.clone(),
            debounce_ms: args.debounce.map_or(DEBOUNCE_MS, milliseconds),
        },
        _ => TriggerSource::Request {},
    })
}

/// Of a time that was read from the command line: finite, and not negative.
fn milliseconds(seconds: f64) -> u64 {
    let time = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn fire(args: TriggerFire, context: &CliContext) -> Result<Value> {
    let payload = match std::io::stdin().is_terminal() {
        true => None,
        false => Some(read_text(Path::new("-"))?),
    };
    // A daemon refuses a large body before it has read all of it, and the client may miss the answer.
    payload.as_deref().map_or(Ok(()), subagentd::check_payload)?;
    let request = FireTrigger { payload, occurrence: args.occurrence };
    TRIGGERS.send(&args.one, "fire", &request, context)
}

fn readable(item: &mut Value) {
    if let Some(shown) = human::source(&item["source"]) {
        item["source"] = shown.into();
    }
}
