//! Builds the command of a hook. Pure.

use std::ffi::OsString;
use std::path::Path;

use subagent_protocol::bytes64::Bytes64;
use subagent_protocol::command_run::CommandRun;
use subagent_protocol::hook::Hook;

use crate::user_command;

/// Variable in which Claude Code's hooks find the project folder.
const PROJECT_DIR: &str = "CLAUDE_PROJECT_DIR";

/// Returns the command of a hook in its workspace. Process-specific variables and those of an owner are
/// removed.
#[must_use]
pub fn command(
    hook: &Hook,
    workspace: &Path,
    environment: impl IntoIterator<Item = (OsString, OsString)>,
    stdin: String,
) -> CommandRun {
    let others = environment.into_iter().filter(|(name, _)| name != PROJECT_DIR);
    let argv = user_command::shell(&hook.command);
    let mut run = user_command::of(argv, workspace, others, stdin, hook.timeout_ms);
    let bytes = |text: &std::ffi::OsStr| Bytes64(std::os::unix::ffi::OsStrExt::as_bytes(text).to_vec());
    run.env.push((bytes(PROJECT_DIR.as_ref()), bytes(workspace.as_os_str())));
    run
}
