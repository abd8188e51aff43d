//! `controller init`: makes the caller the owner of a workspace and leaves the hint file there.

use serde_json::{Value, json};
use subagent_config::controller_hint::{self, ControllerHint};
use subagent_config::proc::{self, Process};
use subagent_protocol::api::{ControllerChoice, ControllerInitialized, InitController};
use subagent_protocol::process::ProcessId;

use crate::args::local::ControllerInit;
use crate::client::{Ask, Client, block_on};
use crate::context::{Context, path_value, present};
use crate::failure::{Failure, Result};
use crate::output::{Outcome, complain, text};

pub(super) fn run(args: &ControllerInit, context: &Context) -> Result<Outcome> {
    if args.print_env && args.json.json {
        return Err(Failure::argument("--print-env prints lines for a shell; use it without --json"));
    }
    let workspace = context.workspace(args.cwd.as_deref())?;
    let request = InitController {
        choice: ControllerChoice {
            controller_id: present(args.controller_id.clone()),
            hinted_controller_id: controller_hint::read_controller_id(&workspace.root),
            workspace_key: workspace.root.to_string_lossy().into_owned(),
        },
        label: present(args.label.clone()),
        owner: owner()?,
    };
    let mut client = Client::new(context, &workspace)?;
    let ask = Ask::change("/v1/controllers", &request)?;
    let mut data = block_on(async move { client.ask(&ask).await })?;
    let granted: ControllerInitialized = serde_json::from_value(data.clone())
        .map_err(|error| Failure::internal(format!("the daemon's answer lacks something: {error}")))?;
    let hint = ControllerHint {
        controller_id: granted.controller_id.to_string(),
        label: granted.label.clone(),
        workspace_key: granted.workspace_key.clone(),
    };
    data["hintPath"] = match controller_hint::write(&workspace.root, &hint) {
        Ok(path) => path_value(&path),
        // The caller owns the workspace now, and this answer is the only one that holds the token. Without the hint
        // the daemon finds the controller by its workspace.
        Err(error) => {
            complain(&format!("Warning: {error}"));
            Value::Null
        }
    };
    if args.print_env {
        let owner = &granted.owner;
        return Ok(Outcome::Lines(format!(
            "export SUBAGENT_CTL_ID={}\nexport SUBAGENT_CTL_EPOCH={}\nexport SUBAGENT_CTL_TOKEN={}",
            owner.controller_id, owner.epoch, owner.token
        )));
    }
    let shown = json!({
        "controllerId": data["controllerId"], "workspaceKey": data["workspaceKey"],
        "epoch": granted.owner.epoch, "hintPath": data["hintPath"],
    });
    let shown = text::fields(&shown, &["controllerId", "workspaceKey", "epoch", "hintPath"]);
    Ok(Outcome::report("controller.initialized", data, shown))
}

/// The process whose life is the ownership's: the leader of the caller's session. A command that leads its own session
/// (or whose leader has ended) is over in a moment; then it is whoever started it.
fn owner() -> Result<ProcessId> {
    let unknown =
        |error: std::io::Error| Failure::internal(format!("cannot find out which session this is: {error}"));
    let own_pid = nix::unistd::getpid().as_raw();
    let mut owner = proc::session_leader().map_err(unknown)?;
    if owner.pid == own_pid && owner.parent > 0 {
        owner = proc::process(owner.parent).map_err(unknown)?;
    }
    let Process { pid, start_time, .. } = owner;
    Ok(ProcessId { pid, start_time })
}
