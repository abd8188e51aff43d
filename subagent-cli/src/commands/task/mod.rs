//! `task`: submits tasks to agents, shows them, waits for them, sends them messages, ends them.

mod awaited;
mod cancel;
mod failed;
mod list;
mod merge;
mod message;
mod one_task;
mod prune;
mod result;
pub(crate) mod run;
mod show;
mod wait;

use clap::Subcommand;

use crate::context::CliContext;
use crate::failure::Result;
use crate::output::CliOutcome;

pub(crate) use one_task::value;
pub(crate) use run::once;

/// `subagent task ...`
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum TaskCommand {
    Run(Box<run::TaskRunArgs>),
    List(list::TaskListArgs),
    Show(show::TaskShowArgs),
    Wait(wait::TaskWaitArgs),
    Message(message::TaskMessageArgs),
    Result(result::TaskResultArgs),
    Cancel(cancel::TaskCancelArgs),
    Merge(merge::TaskMergeArgs),
    Prune(prune::TaskPruneArgs),
}

impl TaskCommand {
    pub(crate) fn run(self, context: &CliContext) -> Result<CliOutcome> {
        match self {
            Self::Run(args) => run::run(*args, context),
            Self::List(args) => list::run(args, context),
            Self::Show(args) => show::run(&args, context),
            Self::Wait(args) => wait::run(&args, context),
            Self::Message(args) => message::run(args, context),
            Self::Result(args) => result::run(&args, context),
            Self::Cancel(args) => cancel::run(args, context),
            Self::Merge(args) => merge::run(&args.one, context),
            Self::Prune(args) => prune::run(&args, context),
        }
    }
}
