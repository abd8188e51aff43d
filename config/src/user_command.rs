//! A command of the user as it is run: its environment and its limits. Pure.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::Path;

use subagent_protocol::bytes64::Bytes64;
use subagent_protocol::command_run::CommandRun;

use crate::environment::inherited_environment;

/// The bytes of each output that are kept.
const MAX_OUTPUT_BYTES: usize = 64 * 1024;

/// A program with arguments in this folder, with this environment but for what is about its own process or an owner.
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

/// The arguments of a line for `sh -c`.
#[must_use]
pub fn shell(line: &str) -> Vec<String> {
    ["/bin/sh", "-c", line].map(str::to_owned).to_vec()
}
