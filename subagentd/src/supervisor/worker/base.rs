//! Records the base of the worker's diff: the state of its git work tree when its first turn
//! begins. A failure of git must not fail the turn.

use std::path::Path;
use std::time::Duration;

use subagent_config::user_command;
use subagent_protocol::command_run::CommandEnd;
use subagent_protocol::work_tree::{FILE, TreeBase};

use super::actor::Actor;
use crate::supervisor::command_run;
use crate::supervisor::views::base_folder::base_folder;

/// Time after which `subagent-runtime base` is killed. It has a shorter limit of its own.
const TIMEOUT: Duration = Duration::from_secs(7);

/// Records the base before the prompt of the first turn is sent. A folder without a repository
/// has none.
///
/// The actor does this, not the sending command: first turns also come from the API, from tasks
/// of agents, and from queued messages, while others change the tree. The sender has its answer
/// already, so no request waits for git.
pub(super) async fn record(actor: &Actor, turn: u64) {
    let folder = base_folder(&actor.shared.setup.state_dir, actor.identity.worker_id.as_str());
    if turn != 1
        || actor.runtime.place.elsewhere().is_some()
        || !is_in_repository(&actor.identity.cwd)
        || folder.join(FILE).exists()
    {
        return;
    }
    let program = &actor.shared.setup.runtime_program;
    let Some(argv) = [program.as_path(), Path::new("base"), &actor.identity.cwd, &folder]
        .map(|word| word.to_str().map(str::to_owned))
        .into_iter()
        .collect::<Option<Vec<String>>>()
    else {
        return missing(&folder, "a path is not UTF-8");
    };
    let millis = u64::try_from(TIMEOUT.as_millis()).unwrap_or(u64::MAX);
    let run = user_command::of(argv, Path::new("/"), std::env::vars_os(), String::new(), millis);
    let result = command_run::run(program, run).await;
    if !matches!(result.end, CommandEnd::Exited { code: 0 }) {
        tracing::warn!(worker = %actor.identity.worker_id, end = ?result.end, "the base of a diff was not recorded");
        missing(&folder, "git did not finish in time");
    }
}

/// Checks for a repository without starting git, because most folders of tests and scripts have
/// none.
fn is_in_repository(cwd: &Path) -> bool {
    cwd.ancestors().any(|folder| folder.join(".git").symlink_metadata().is_ok())
}

/// Stores the reason for a missing base. If that fails, there is no base either.
fn missing(folder: &Path, reason: &str) {
    let base = TreeBase::Missing { reason: reason.to_owned() };
    let _ = std::fs::remove_dir_all(folder);
    let _ = std::fs::create_dir_all(folder)
        .and_then(|()| std::fs::write(folder.join(FILE), serde_json::to_vec(&base).unwrap_or_default()));
}
