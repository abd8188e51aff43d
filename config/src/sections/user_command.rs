//! A command of the user with its environment and limits. Pure.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::Path;

use subagent_protocol::bytes64::Bytes64;
use subagent_protocol::command_run::CommandRun;

use crate::environment::inherited_environment;

/// Maximum size of each output stream that is kept, in bytes.
const MAX_OUTPUT_BYTES: usize = 64 * 1024;

/// Returns a program to run in this folder. Process-specific variables and those of an owner are removed
/// from the environment.
#[must_use]
pub fn of(
    argv: Vec<String>,
    cwd: &Path,
    environment: impl IntoIterator<Item = (OsString, OsString)>,
    stdin: String,
    timeout_ms: u64,
) -> CommandRun {
    let bytes = |text: OsString| Bytes64(text.into_vec());
    let environment = inherited_environment(environment, &BTreeMap::new(), cwd);
    CommandRun {
        argv,
        cwd: cwd.to_owned(),
        env: environment.into_iter().map(|(name, value)| (bytes(name), bytes(value))).collect(),
        stdin,
        timeout_ms,
        max_output_bytes: MAX_OUTPUT_BYTES,
    }
}

/// Returns the arguments for a line of `sh -c`.
#[must_use]
pub fn shell(line: &str) -> Vec<String> {
    ["/bin/sh", "-c", line].map(str::to_owned).to_vec()
}
