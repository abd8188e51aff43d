//! `controller init`: makes the caller the owner of a workspace and leaves the hint file there.

use subagent_config::start::budgets::of_config;
use subagent_protocol::api::InitController;

use super::grant::{self, Show};
use crate::args::controllers::ControllerInit;
use crate::client::ApiRequest;
use crate::context::{CliContext, present};
use crate::controller;
use crate::failure::Result;
use crate::output::CliOutcome;

pub(crate) fn run(args: &ControllerInit, context: &CliContext) -> Result<CliOutcome> {
    let show = Show::of(args.print_env, args.json)?;
    let workspace = context.workspace(args.cwd.as_deref())?;
    let config = context.config(None, args.cwd.as_deref())?;
    let request = InitController {
        choice: controller::choice(args.controller_id.as_deref(), &workspace),
        label: present(args.label.clone()),
        require_handle: args.require_handle,
        budget: of_config(&config.config.budgets.controller),
        owner: controller::owner()?,
    };
    let ask = ApiRequest::change("/v1/controllers", &request)?;
    grant::grant(ask, "controller.initialized", show, context, &workspace)
}
