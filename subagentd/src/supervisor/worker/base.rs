//! The base of the worker's diff: the state of its git work tree when its first turn begins.
//!
//! It is taken here and not by the command that sends the first message. Every first turn passes here: of the command
//! line, the API, tasks of agents, and messages that have waited in a queue while others changed the tree. The sender is
//! answered before, so nothing of the API waits for git. Git runs in processes of its own, and no failure of it is one of
//! the turn.

use std::path::Path;
use std::time::Duration;

use subagent_config::user_command;
use subagent_protocol::command_run::CommandEnd;
use subagent_protocol::work_tree::{FILE, TreeBase};

use super::actor::Actor;
use crate::supervisor::base_folder::base_folder;
use crate::supervisor::command_run;

/// When `subagent-runtime base`, which has a shorter deadline of its own, is killed.
const TIMEOUT: Duration = Duration::from_secs(7);

impl Actor {
    /// Records the base before the prompt of the first turn is sent. A folder without a repository has none.
    pub(super) async fn record_base(&self, turn: u64) {
        let folder = base_folder(&self.shared.setup.state_dir, self.worker_id.as_str());
        if turn != 1 || !is_in_repository(&self.cwd) || folder.join(FILE).exists() {
            return;
        }
        let program = &self.shared.setup.runtime_program;
        let Some(argv) = [program.as_path(), Path::new("base"), &self.cwd, &folder]
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
            tracing::warn!(worker = %self.worker_id, end = ?result.end, "the base of a diff was not recorded");
            missing(&folder, "git did not finish in time");
        }
    }
}

/// Looks for what git looks for, without starting it: most folders of tests and scripts have no repository.
fn is_in_repository(cwd: &Path) -> bool {
    cwd.ancestors().any(|folder| folder.join(".git").symlink_metadata().is_ok())
}

/// Notes why there is no base. If that cannot be written there is none either.
fn missing(folder: &Path, reason: &str) {
    let base = TreeBase::Missing { reason: reason.to_owned() };
    let _ = std::fs::remove_dir_all(folder);
    let _ = std::fs::create_dir_all(folder)
        .and_then(|()| std::fs::write(folder.join(FILE), serde_json::to_vec(&base).unwrap_or_default()));
}
