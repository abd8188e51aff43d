//! A hook as a command to run. Pure.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::Path;

use subagent_protocol::bytes64::Bytes64;
use subagent_protocol::command_run::CommandRun;
use subagent_protocol::hook::Hook;

use crate::environment::inherited_environment;

/// The bytes of each output of a hook that are kept.
const MAX_OUTPUT_BYTES: usize = 64 * 1024;
/// Where hooks of Claude Code look for files of the project.
const PROJECT_DIR: &str = "CLAUDE_PROJECT_DIR";

/// The command of a hook in its workspace, with this environment but for what is about its own process or an owner.
#[must_use]
pub fn command(
    hook: &Hook,
    workspace: &Path,
    environment: impl IntoIterator<Item = (OsString, OsString)>,
    stdin: String,
) -> CommandRun {
    let mut env = inherited_environment(environment, &BTreeMap::new(), workspace);
    env.retain(|(name, _)| name != PROJECT_DIR);
    env.push((PROJECT_DIR.into(), workspace.into()));
    let bytes = |text: OsString| Bytes64(text.into_vec());
    CommandRun {
        argv: vec!["/bin/sh".to_owned(), "-c".to_owned(), hook.command.clone()],
        cwd: workspace.to_owned(),
        env: env.into_iter().map(|(name, value)| (bytes(name), bytes(value))).collect(),
        stdin,
        timeout_ms: hook.timeout_ms,
        max_output_bytes: MAX_OUTPUT_BYTES,
    }
}
