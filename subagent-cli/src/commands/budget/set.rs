//! `budget set`: limits what all workers of a controller may use together.

use clap::Args;
use subagent_protocol::api::ChangeControllerBudget;

use super::{ControllerBudget, line, no_controller, typed};
use crate::client::{ApiRequest, DaemonClient, block_on, view};
use crate::command_line::flags::budget::BudgetFlags;
use crate::command_line::flags::{ControllerFlags, JsonFlag};
use crate::commands::targets::has_state;
use crate::context::CliContext;
use crate::controller;
use crate::failure::{Failure, Result};
use crate::input::InputObject;
use crate::output::CliOutcome;

/// Limit what all workers of a controller may use together
///
/// What is not named stays as it is. The limits of one worker are changed by `worker set`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent budget set --max-cost 20 --on-budget cancel
  subagent budget set --max-turns none")]
pub(crate) struct BudgetSetArgs {
    #[command(flatten)]
    pub(crate) limits: BudgetFlags,
    #[command(flatten)]
    pub(crate) which: ControllerFlags,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

pub(super) fn run(args: BudgetSetArgs, context: &CliContext) -> Result<CliOutcome> {
    let limits = typed(args.limits, &InputObject::default())?;
    if limits.is_empty() {
        return Err(Failure::input(
            "nothing to set: give --max-turns, --max-wall-time, --max-tokens, --max-cost, --on-budget or --on-unknown",
        ));
    }
    let workspace = context.workspace(args.which.cwd.as_deref())?;
    let choice = controller::choice(args.which.controller_id.as_deref(), &workspace);
    if !has_state(&workspace) {
        return Err(no_controller(&choice));
    }
    let ask = ApiRequest::change("/v1/budgets", &ChangeControllerBudget { choice, limits })?;
    let mut client = DaemonClient::new(context, &workspace);
    let data = block_on(async move { client.ask(&ask).await })?;
    let ControllerBudget { controller_id, controller } = view(&data)?;
    let shown = line(&controller_id, &controller);
    Ok(CliOutcome::report("budget.set", data, shown))
}
