//! A user who is nowhere near the workspace: commands reach its daemon by `--host lap` alone.

use std::fs;

use serde_json::json;
use subagent_tests::harness::{Command, SshHost, TestSandbox};

/// Starts the host and names it `lap`; `None` without a server on this machine.
pub(crate) fn host(sandbox: &TestSandbox) -> Option<SshHost> {
    let host = SshHost::start(sandbox)?;
    fs::create_dir_all(sandbox.file("away")).unwrap();
    SshHost::offer(sandbox, &json!({"lap": host.entry(sandbox)}));
    Some(host)
}

/// A command in a folder without a workspace.
pub(crate) fn away(sandbox: &TestSandbox, args: &[&str]) -> Command {
    sandbox.subagent(args).cwd(sandbox.file("away"))
}

/// The same for the host.
pub(crate) fn at_lap(sandbox: &TestSandbox, args: &[&str]) -> Command {
    away(sandbox, &[&["--host", "lap"], args].concat())
}
