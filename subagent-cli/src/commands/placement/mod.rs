//! `placement`: other machines, containers, clusters, pods and places of own commands where workers run.
//! The daemon of the workspace is not involved.

mod agent;
mod check;
mod cluster;
mod commands;
mod container;
mod list;
mod pod;
mod prepare;
mod queue;
mod remote;
mod steps;

use clap::{Args, Subcommand};
use subagent_config::placements;
use subagent_config::start::templates;
use subagent_protocol::placement::Placement;

use crate::command_line::flags::{ConfigFlag, JsonFlag};
use crate::context::CliContext;
use crate::failure::Result;
use crate::output::CliOutcome;

/// The commands of `subagent placement`.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum PlacementCommand {
    List(list::PlacementListArgs),
    Check(check::PlacementCheckArgs),
    Prepare(prepare::PlacementPrepareArgs),
}

impl PlacementCommand {
    pub(crate) fn run(self, context: &CliContext) -> Result<CliOutcome> {
        match self {
            Self::List(args) => list::run(&args, context),
            Self::Check(args) => check::run(&args, context),
            Self::Prepare(args) => prepare::run(&args, context),
        }
    }
}

/// The arguments of a command about one placement.
#[derive(Debug, Args)]
pub(crate) struct NamedPlacement {
    /// The placement of the config file
    #[arg(value_name = "NAME")]
    pub(crate) placement: String,
    #[command(flatten)]
    pub(crate) config: ConfigFlag,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

impl NamedPlacement {
    /// Returns the placement. Its mounts count from the current folder, as at a start.
    ///
    /// # Errors
    /// `PLACEMENT_NOT_FOUND`, and those of the config file.
    fn of(&self, context: &CliContext) -> Result<Placement> {
        let loaded = context.config(self.config.config.as_deref(), None)?;
        let placement = placements::by_name(&loaded.config, &self.placement)?.clone();
        Ok(templates::completed(placement, &context.env.cwd, context.env.home.as_deref())?)
    }
}
