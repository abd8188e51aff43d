//! `trigger`: what is started on which events.

mod add;
mod fire;
mod list;
mod log;
mod pause;
mod resume;
mod rm;
mod run;
mod show;
mod triggers;

use clap::Subcommand;

use crate::context::CliContext;
use crate::failure::Result;
use crate::output::CliOutcome;

/// `subagent trigger ...`
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum TriggerCommand {
    Add(Box<add::TriggerAddArgs>),
    List(list::TriggerListArgs),
    Show(show::TriggerShowArgs),
    Log(log::TriggerLogArgs),
    Pause(pause::TriggerPauseArgs),
    Resume(resume::TriggerResumeArgs),
    Run(run::TriggerRunArgs),
    Fire(fire::TriggerFireArgs),
    Rm(rm::TriggerRmArgs),
}

impl TriggerCommand {
    pub(crate) fn run(self, context: &CliContext) -> Result<CliOutcome> {
        match self {
            Self::Add(args) => add::run(*args, context),
            Self::List(args) => list::run(&args, context),
            Self::Show(args) => show::run(&args, context),
            Self::Log(args) => log::run(&args, context),
            Self::Pause(args) => pause::run(&args, context),
            Self::Resume(args) => resume::run(&args, context),
            Self::Run(args) => run::run(&args, context),
            Self::Fire(args) => fire::run(args, context),
            Self::Rm(args) => rm::run(&args, context),
        }
    }
}
