//! `worker`: starts, lists, shows, stops and removes workers.

pub(crate) mod r#continue;
mod handoff;
mod inspect;
mod list;
pub(crate) mod logs;
mod restart;
mod resume;
pub(crate) mod rm;
mod set;
mod show;
pub(crate) mod start;
pub(crate) mod stop;

use clap::Subcommand;

use crate::context::CliContext;
use crate::failure::Result;
use crate::output::CliOutcome;

/// `subagent worker ...`
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum WorkerCommand {
    Start(Box<start::WorkerStartArgs>),
    List(list::WorkerListArgs),
    Show(show::WorkerShowArgs),
    Stop(stop::WorkerStopArgs),
    Logs(logs::WorkerLogsArgs),
    Inspect(inspect::WorkerInspectArgs),
    Handoff(handoff::WorkerHandoffArgs),
    Continue(Box<r#continue::WorkerContinueArgs>),
    Restart(restart::WorkerRestartArgs),
    Resume(resume::WorkerResumeArgs),
    Set(set::WorkerSetArgs),
    Rm(rm::WorkerRmArgs),
}

impl WorkerCommand {
    pub(crate) fn run(self, context: &CliContext) -> Result<CliOutcome> {
        match self {
            Self::Start(args) => start::run(*args, context),
            Self::List(args) => list::run(&args, context),
            Self::Show(args) => show::run(&args, context),
            Self::Stop(args) => stop::run(&args, context),
            Self::Logs(args) => logs::run(&args, context),
            Self::Inspect(args) => inspect::run(args, context),
            Self::Handoff(args) => handoff::run(args, context),
            Self::Continue(args) => r#continue::run(*args, context),
            Self::Restart(args) => restart::run(&args, context),
            Self::Resume(args) => resume::run(&args, context),
            Self::Set(args) => set::run(args, context),
            Self::Rm(args) => rm::run(&args, context),
        }
    }
}
