//! `controller recover`: which controllers there are, whose owner has died, and how to take over. Changes nothing.

use std::path::{Path, PathBuf};

use clap::Args;
use serde::Deserialize;
use serde_json::{Value, json};
use subagent_protocol::lenient;

use crate::client::{ApiRequest, DaemonClient, HostLink, RequestPath, block_on, items_mut};
use crate::command_line::flags::{JsonFlag, path};
use crate::commands::targets::has_state;
use crate::context::{CliContext, present_path};
use crate::failure::Result;
use crate::output::{CliOutcome, json, text};

/// List controllers whose owner may have died
///
/// States: dormant (no owner), active (its process lives), orphaned (its process has ended), conflicted
/// (unknown). Nothing is changed; with --json the last two have the command that takes over.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent controller recover
  subagent controller recover --cwd . --json")]
pub(crate) struct ControllerRecoverArgs {
    /// A folder of the workspace [default: all workspaces of the state dir]
    #[arg(long, value_name = "PATH", value_parser = path())]
    pub(crate) cwd: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

pub(super) fn run(args: &ControllerRecoverArgs, context: &CliContext) -> Result<CliOutcome> {
    let workspace = context.workspace(args.cwd.as_deref())?;
    let root = workspace.root.to_string_lossy();
    let filter = present_path(args.cwd.clone()).map(|_| &*root);
    let path = RequestPath::new("/v1/controllers").with("workspaceKey", filter);
    let mut data = if has_state(&workspace) {
        let mut client = DaemonClient::new(context, &workspace);
        block_on(async move { client.ask(&ApiRequest::get(path)).await })?
    } else {
        json!({"items": [], "count": 0, "workspaceFilter": filter})
    };
    for item in items_mut(&mut data) {
        let suggested = suggested(item, &workspace.root, context.host.as_deref());
        json::extend(item, [("suggestedAction", suggested)]);
    }
    let shown = text::rows(&data, &["controllerId", "state", "workspaceKey"], "(no controllers)");
    Ok(CliOutcome::report("controller.recovered", data, shown))
}

/// The command that takes over from an owner that is dead, or may be. On another host it runs there. Its `--cwd` is the workspace of this command and
/// not the controller's, which may be gone or have another state dir: from here the controller was found.
fn suggested(item: &Value, root: &Path, host: Option<&HostLink>) -> Value {
    /// A controller, as far as the command depends on it.
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct ListedController<'a> {
        state: Option<&'a str>,
        controller_id: Option<&'a str>,
    }
    let ListedController { state, controller_id } = lenient::read(item);
    match (state, controller_id) {
        (Some("orphaned" | "conflicted"), Some(id)) => {
            let root = root.to_string_lossy();
            let root = shell_words::quote(&root);
            let command = format!("subagent controller attach --takeover --cwd {root} --controller-id {id}");
            host.map_or_else(|| command.clone(), |host| host.command_there(&command)).into()
        }
        _ => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_takeover_is_suggested_where_the_owner_may_be_dead() {
        let suggested = |state: &str| {
            suggested(&json!({"state": state, "controllerId": "ctl_1"}), Path::new("/my work/it's"), None)
        };
        for state in ["orphaned", "conflicted"] {
            let command = suggested(state);
            let words = shell_words::split(command.as_str().unwrap()).unwrap();
            let expected = [
                "subagent",
                "controller",
                "attach",
                "--takeover",
                "--cwd",
                "/my work/it's",
                "--controller-id",
                "ctl_1",
            ];
            assert_eq!(words, expected);
        }
        for state in ["dormant", "active"] {
            assert_eq!(suggested(state), Value::Null);
        }
    }
}
