//! `controller status`: who owns a workspace, and what the caller's handle is worth.

use clap::Args;
use serde::Deserialize;
use serde_json::{Value, json};
use subagent_protocol::api::{ControllerChoice, ControllerHandle};
use subagent_protocol::{Code, lenient};

use crate::client::{ApiRequest, DaemonClient, RequestPath, block_on};
use crate::command_line::flags::{ControllerFlags, JsonFlag};
use crate::commands::targets::has_state;
use crate::context::CliContext;
use crate::controller;
use crate::failure::{Failure, Result};
use crate::output::CliOutcome;

/// Show who owns a workspace
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent controller status
  subagent controller status --controller-id ctl_0123456789 --json")]
pub(crate) struct ControllerStatusArgs {
    #[command(flatten)]
    pub(crate) which: ControllerFlags,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

pub(super) fn run(args: &ControllerStatusArgs, context: &CliContext) -> Result<CliOutcome> {
    let workspace = context.workspace(args.which.cwd.as_deref())?;
    let choice = controller::choice(args.which.controller_id.as_deref(), &workspace);
    if !has_state(&workspace) {
        let data = without_state(&choice, context.handle().as_ref())?;
        let shown = shown(&data);
        return Ok(CliOutcome::report("controller.status", data, shown));
    }
    let path = RequestPath::new("/v1/controllers/status")
        .with("controllerId", choice.controller_id.as_deref())
        .with("hintedControllerId", choice.hinted_controller_id.as_deref())
        .with("workspaceKey", Some(&choice.workspace_key));
    let mut client = DaemonClient::new(context, &workspace);
    let data = block_on(async move { client.ask(&ApiRequest::get(path)).await })?;
    let shown = shown(&data);
    Ok(CliOutcome::report("controller.status", data, shown))
}

/// The status of a workspace where nothing has been done yet.
fn without_state(choice: &ControllerChoice, handle: Option<&ControllerHandle>) -> Result<Value> {
    if let Some(named) = &choice.controller_id {
        let message = format!("there is no controller {named}");
        return Err(Failure::new(Code::ControllerNotFound, message).with("controllerId", named.as_str()));
    }
    let env_handle = handle.map_or_else(ControllerHandle::shown_none, |handle| handle.shown(false));
    Ok(json!({
        "controllerId": null, "workspaceKey": choice.workspace_key, "state": "dormant", "activeOwner": null,
        "envHandle": env_handle,
    }))
}

/// The status, as far as it is shown as lines.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct StatusLines<'a> {
    state: &'a str,
    controller_id: Option<&'a str>,
    active_owner: Option<OwnerLines>,
    env_handle: Option<HandleLines>,
}

#[derive(Debug, Deserialize)]
struct OwnerLines {
    epoch: u64,
    pid: i32,
}

#[derive(Debug, Deserialize)]
struct HandleLines {
    valid: bool,
}

fn shown(data: &Value) -> String {
    let StatusLines { state, controller_id, active_owner, env_handle } = lenient::read(data);
    let mut lines = vec![format!("state: {state}")];
    let Some(controller_id) = controller_id else {
        lines.push("controllerId: (none)".to_owned());
        return lines.join("\n");
    };
    lines.push(format!("controllerId: {controller_id}"));
    match active_owner {
        None => lines.push("owner: (none)".to_owned()),
        Some(OwnerLines { epoch, pid }) => {
            lines.push(format!("owner.epoch: {epoch}"));
            lines.push(format!("owner.pid: {pid}"));
        }
    }
    let valid = env_handle.is_some_and(|handle| handle.valid);
    lines.push(format!("env.valid: {}", if valid { "True" } else { "False" }));
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lines_for_people() {
        let none = json!({"controllerId": null, "state": "dormant", "activeOwner": null, "envHandle": null});
        assert_eq!(shown(&none), "state: dormant\ncontrollerId: (none)");
        let mut data = json!({
            "controllerId": "ctl_1", "state": "dormant", "activeOwner": null,
            "envHandle": {"present": false, "valid": false},
        });
        assert_eq!(shown(&data), "state: dormant\ncontrollerId: ctl_1\nowner: (none)\nenv.valid: False");
        data["state"] = "active".into();
        data["activeOwner"] = json!({"epoch": 3, "pid": 42});
        data["envHandle"] = json!({"present": true, "valid": true});
        let expected = "state: active\ncontrollerId: ctl_1\nowner.epoch: 3\nowner.pid: 42\nenv.valid: True";
        assert_eq!(shown(&data), expected);
    }
}
