//! `worktree`: the git worktrees of workers. The daemon knows them, and has git look at them.

mod change;
mod diff;
mod discard;
mod list;
mod prune;
mod remove;
mod setup;
mod show;

use clap::Subcommand;

use crate::commands::land;
use crate::context::CliContext;
use crate::failure::Result;
use crate::output::CliOutcome;

pub(crate) use change::{COMMANDS_LIMIT, environment, git_environment, merged, typed};

/// `subagent worktree ...`
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum WorktreeCommand {
    List(list::WorktreeListArgs),
    Show(show::WorktreeShowArgs),
    Diff(crate::commands::diff::DiffArgs),
    Setup(setup::WorktreeSetupArgs),
    Remove(remove::WorktreeRemoveArgs),
    Discard(discard::WorktreeDiscardArgs),
    Land(Box<land::LandArgs>),
    Prune(prune::WorktreePruneArgs),
}

impl WorktreeCommand {
    pub(crate) fn run(self, context: &CliContext) -> Result<CliOutcome> {
        match self {
            Self::List(args) => list::run(&args, context),
            Self::Show(args) => show::run(&args.one, context),
            Self::Diff(args) => diff::run(args, context),
            Self::Setup(args) => setup::run(&args, context),
            Self::Remove(args) => remove::run(&args, context),
            Self::Discard(args) => discard::run(&args, context),
            Self::Land(args) => land::run(*args, context),
            Self::Prune(args) => prune::run(&args, context),
        }
    }
}
