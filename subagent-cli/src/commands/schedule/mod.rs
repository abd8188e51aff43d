//! `schedule`: what is started at which times.

mod add;
mod list;
mod log;
mod pause;
mod resume;
mod rm;
mod run;
mod show;

use clap::Subcommand;
use serde::Deserialize as _;
use serde_json::Value;
use subagent_protocol::schedule::When;

use crate::commands::firing::Starters;
use crate::context::CliContext;
use crate::failure::Result;
use crate::output::{CliOutcome, human};

/// `subagent schedule ...`
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum ScheduleCommand {
    Add(Box<add::ScheduleAdd>),
    List(list::ScheduleList),
    Show(show::ScheduleShow),
    Log(log::ScheduleLog),
    Pause(pause::SchedulePause),
    Resume(resume::ScheduleResume),
    Run(run::ScheduleRun),
    Rm(rm::ScheduleRm),
}

impl ScheduleCommand {
    pub(crate) fn run(self, context: &CliContext) -> Result<CliOutcome> {
        match self {
            Self::Add(args) => add::run(*args, context),
            Self::List(args) => list::run(&args, context),
            Self::Show(args) => show::run(&args, context),
            Self::Log(args) => log::run(&args, context),
            Self::Pause(args) => pause::run(&args, context),
            Self::Resume(args) => resume::run(&args, context),
            Self::Run(args) => run::run(&args, context),
            Self::Rm(args) => rm::run(&args, context),
        }
    }
}

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

fn readable(item: &mut Value) {
    if let Ok(when) = When::deserialize(&item["when"]) {
        item["when"] = human::when(&when).into();
    }
}
