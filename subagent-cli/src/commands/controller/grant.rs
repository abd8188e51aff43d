//! What `controller init` and `controller attach` share: the hint file, and how a new ownership is
//! shown.

use std::path::{Path, PathBuf};

use serde_json::json;
use subagent_config::controller_hint::{self, ControllerHint};
use subagent_config::{ConfigError, Workspace};
use subagent_protocol::api::ControllerInitialized;

use crate::client::{ApiRequest, DaemonClient, block_on, view};
use crate::command_line::flags::JsonFlag;
use crate::context::{CliContext, path_value};
use crate::failure::{Failure, Result};
use crate::output::{CliOutcome, complain, json, text};

/// Whether an ownership is shown as lines for a shell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Show {
    /// As the result of the command.
    Report,
    /// As the three variables.
    Variables,
}

impl Show {
    /// What the flags say.
    pub(crate) fn of(print_env: bool, json: JsonFlag) -> Result<Self> {
        match (print_env, json.json) {
            (true, true) => {
                Err(Failure::argument("--print-env prints lines for a shell; use it without --json"))
            }
            (true, false) => Ok(Self::Variables),
            (false, _) => Ok(Self::Report),
        }
    }
}

/// Asks for the ownership and shows it.
pub(crate) fn grant(
    ask: ApiRequest,
    kind: &'static str,
    show: Show,
    context: &CliContext,
    workspace: &Workspace,
) -> Result<CliOutcome> {
    let mut client = DaemonClient::new(context, workspace);
    let mut data = block_on(async move { client.ask(&ask).await })?;
    let granted: ControllerInitialized = view(&data)?;
    let hint_path = path_value(&leave_hint(&granted, &workspace.root));
    let owner = &granted.owner;
    if show == Show::Variables {
        return Ok(CliOutcome::Lines(format!(
            "export SUBAGENT_CTL_ID={}\nexport SUBAGENT_CTL_EPOCH={}\nexport SUBAGENT_CTL_TOKEN={}",
            owner.controller_id, owner.epoch, owner.token
        )));
    }
    let shown = json!({
        "controllerId": granted.controller_id, "workspaceKey": granted.workspace_key,
        "epoch": owner.epoch, "hintPath": hint_path,
    });
    json::extend(&mut data, [("hintPath", hint_path)]);
    let shown = text::fields(&shown, &["controllerId", "workspaceKey", "epoch", "hintPath"]);
    Ok(CliOutcome::report(kind, data, shown))
}

/// Writes the hint into the workspace that the controller belongs to. That need not be the one where the command was
/// run (`--controller-id`): a hint there would lead every later command in it to a foreign controller. If that
/// workspace is gone and a hint here names the controller, the workspace was moved, and the hint is good as it is.
///
/// The result is where it is, or would be.
fn leave_hint(granted: &ControllerInitialized, root: &Path) -> PathBuf {
    let here = granted.workspace_key == root.to_string_lossy();
    let workspace = if here { root.to_owned() } else { PathBuf::from(&granted.workspace_key) };
    let known_here = || controller_hint::read_controller_id(root);
    if !workspace.is_dir() && known_here().is_some_and(|id| id == granted.controller_id.as_str()) {
        return controller_hint::path(root);
    }
    let hint = ControllerHint {
        controller_id: granted.controller_id.to_string(),
        label: granted.label.clone(),
        workspace_key: granted.workspace_key.clone(),
    };
    // The caller owns the workspace now, and this answer is the only one that holds the token. Without the hint the
    // daemon finds the controller by its workspace.
    let path = || controller_hint::path(&workspace);
    let checked = subagent_failpoint::check("hint.before_write")
        .map_err(|cause| ConfigError::ControllerHintUnwritable { path: path(), cause });
    let written = checked.and_then(|()| controller_hint::write(&workspace, &hint));
    subagent_failpoint::hit("hint.after_write");
    written.unwrap_or_else(|error| {
        complain(&format!("Warning: {error}"));
        path()
    })
}
