//! `schedule`: what is started at which times.

mod add;
mod list;
mod log;
mod pause;
mod resume;
mod rm;
mod run;
mod schedules;
mod show;

use clap::Subcommand;

use crate::context::CliContext;
use crate::failure::Result;
use crate::output::CliOutcome;

/// `subagent schedule ...`
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum ScheduleCommand {
    Add(Box<add::ScheduleAddArgs>),
    List(list::ScheduleListArgs),
    Show(show::ScheduleShowArgs),
    Log(log::ScheduleLogArgs),
    Pause(pause::SchedulePauseArgs),
    Resume(resume::ScheduleResumeArgs),
    Run(run::ScheduleRunArgs),
    Rm(rm::ScheduleRmArgs),
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
