//! `systemctl --user`, with a deadline. Whether there is a user manager at all is for its answer to say.

use std::io;
use std::process::{Output, Stdio};
use std::time::Duration;

use subagent_config::Environment;
use subagent_protocol::Code;
use tokio::process::Command;
use tokio::time::timeout;

use super::unit::SystemdUnit;
use crate::failure::{Failure, Result};

/// For an order that starts and stops nothing.
const ANSWER_TIME: Duration = Duration::from_secs(15);
/// For one that does: longer than the unit's own limits.
const CHANGE_TIME: Duration = Duration::from_secs(150);
/// How much of what it says is kept.
const MAX_CHARS: usize = 4000;

/// Makes the user's manager read its units again.
///
/// # Errors
/// The reason as a sentence: there is no `systemctl`, or it reports an error.
pub(super) async fn reload(env: &Environment) -> std::result::Result<(), String> {
    match said(&["daemon-reload"], env, ANSWER_TIME).await {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(format!("systemctl --user daemon-reload: {}", words(&output))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err("there is no systemctl here".to_owned()),
        Err(error) => Err(format!("systemctl --user daemon-reload: {error}")),
    }
}

/// Has the manager carry out an order about a unit, and waits until it is done.
///
/// # Errors
/// `DAEMON_START_FAILED` with what systemctl says.
pub(super) async fn order(args: &[&str], unit: &SystemdUnit, env: &Environment) -> Result<()> {
    let args = [args, &[unit.name.as_str()]].concat();
    let why = match said(&args, env, CHANGE_TIME).await {
        Ok(output) if output.status.success() => return Ok(()),
        Ok(output) => words(&output),
        Err(error) => error.to_string(),
    };
    let command = in_words(&args);
    Err(Failure::new(Code::DaemonStartFailed, format!("`{command}` failed: {why}"))
        .with("unit", unit.name.as_str())
        .with("unitPath", crate::context::path_value(&unit.path))
        .with("command", command)
        .with("error", why)
        .recommend("see the status of the unit; end a daemon that runs in the foreground first")
        .with("recommendedCommand", format!("systemctl --user status {}", unit.name)))
}

/// The command that a person would type.
pub(super) fn in_words(args: &[&str]) -> String {
    format!("systemctl --user {}", args.join(" "))
}

async fn said(args: &[&str], env: &Environment, limit: Duration) -> io::Result<Output> {
    let mut command = Command::new("systemctl");
    command.args(["--user", "--no-ask-password"]).args(args);
    // An owner's handle is none of its business.
    let passed = env.vars.iter().filter(|(name, _)| subagent_config::environment::passes_on(name));
    command.env_clear().envs(passed).env("LC_ALL", "C").env("SYSTEMD_PAGER", "");
    command.stdin(Stdio::null()).kill_on_drop(true);
    timeout(limit, command.output()).await.unwrap_or_else(|_| {
        let why = format!("it did not end within {} s", limit.as_secs());
        Err(io::Error::new(io::ErrorKind::TimedOut, why))
    })
}

fn words(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    match text.trim() {
        "" => output.status.to_string(),
        text => text.chars().take(MAX_CHARS).collect(),
    }
}
