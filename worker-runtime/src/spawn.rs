//! Starts the guard with the agent and owns our ends of all their pipes.
//!
//! Does not interpret their content.

use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use command_fds::{CommandFdExt, FdMapping};
use subagent_protocol::start::AgentProgram;
use tokio::net::unix::pipe::{Receiver, Sender};

use crate::guard;

/// The environment variable that marks the processes of one runtime.
pub(crate) const MARKER: &str = "SUBAGENT_MARKER";

/// The guard and our ends of the pipes; `None` is a closed pipe.
pub(crate) struct AgentIo {
    /// The guard. The owner of this value reaps it.
    pub(crate) guard: Child,
    /// To the agent's standard input.
    pub(crate) input: Option<Sender>,
    /// From the agent's standard output.
    pub(crate) output: Option<Receiver>,
    /// From the agent's standard error.
    pub(crate) errors: Option<Receiver>,
    /// From the guard's status pipe.
    pub(crate) status: Option<Receiver>,
    life: Option<File>,
}

/// A started guard and our ends of the pipes to it.
pub(crate) struct SpawnedGuard {
    /// The guard. The owner of this value reaps it.
    pub(crate) guard: Child,
    /// The life pipe. Dropping it ends everything.
    pub(crate) life: File,
    /// The guard's status pipe.
    pub(crate) status: PipeReader,
}

/// Starts the guard, which starts the agent and reports the result on the status pipe. `proxy` is
/// the channel of its sandbox to the proxy.
///
/// # Errors
///
/// The system's error if the guard itself could not be started, for example because the
/// working directory is gone.
pub(crate) fn spawn(
    agent: &AgentProgram,
    marker: &str,
    guard_lock: OwnedFd,
    proxy: Option<OwnedFd>,
) -> io::Result<AgentIo> {
    let (agent_input, input) = io::pipe()?;
    let (output, agent_output) = io::pipe()?;
    let (errors, agent_errors) = io::pipe()?;
    let stdio = [Stdio::from(agent_input), Stdio::from(agent_output), Stdio::from(agent_errors)];
    let SpawnedGuard { guard, life, status } = start_guard(agent, marker, guard_lock, proxy, stdio)?;
    Ok(AgentIo {
        guard,
        input: Some(sender(input)?),
        output: Some(receiver(output)?),
        errors: Some(receiver(errors)?),
        status: Some(receiver(status)?),
        life: Some(life),
    })
}

/// Starts a guard for a program with these standard streams.
///
/// # Errors
///
/// The same errors as [`spawn`].
pub(crate) fn start_guard(
    agent: &AgentProgram,
    marker: &str,
    guard_lock: OwnedFd,
    proxy: Option<OwnedFd>,
    [stdin, stdout, stderr]: [Stdio; 3],
) -> io::Result<SpawnedGuard> {
    let (guard_life, life) = io::pipe()?;
    let (status, guard_status) = io::pipe()?;
    let mut command = Command::new(guard::OWN_EXECUTABLE);
    command.arg0("subagent-runtime").arg("guard").arg("--umask").arg(format!("{:o}", agent.umask & 0o777));
    if subagent_failpoint::sabotaged("argv.values") {
        command.arg0(format!(
            "subagent-runtime {:?}",
            agent.env.iter().map(|(_, value)| String::from_utf8_lossy(&value.0)).collect::<Vec<_>>()
        ));
    }
    if let Some(nofile) = agent.nofile {
        command.arg("--nofile").arg(nofile.to_string());
    }
    if let Some(sandbox) = &agent.sandbox {
        command.arg("--sandbox").arg(serde_json::to_string(sandbox).map_err(io::Error::other)?);
    }
    if proxy.is_some() {
        command.arg("--proxy");
    }
    command.arg("--").arg(&agent.program).args(&agent.args);
    command.env_clear().envs(agent.env.iter().map(|(name, value)| {
        (std::ffi::OsString::from_vec(name.0.clone()), std::ffi::OsString::from_vec(value.0.clone()))
    }));
    command.envs(subagent_failpoint::armed_with()).env(MARKER, marker).current_dir(&agent.cwd);
    command.stdin(stdin).stdout(stdout).stderr(stderr);
    let mapping = |parent_fd: OwnedFd, child_fd| FdMapping { parent_fd, child_fd };
    let mut mappings = vec![
        mapping(guard_life.into(), guard::LIFE_FD),
        mapping(guard_status.into(), guard::STATUS_FD),
        mapping(guard_lock, guard::LOCK_FD),
    ];
    mappings.extend(proxy.map(|proxy| mapping(proxy, guard::PROXY_FD)));
    command.fd_mappings(mappings).map_err(io::Error::other)?;
    subagent_failpoint::check("guard.before_spawn")?;
    let guard = command.spawn()?;
    subagent_failpoint::hit("guard.after_spawn");
    Ok(SpawnedGuard { guard, life: File::from(OwnedFd::from(life)), status })
}

impl AgentIo {
    /// Sends the guard a command byte. A guard that is gone needs none.
    pub(crate) fn signal_guard(&mut self, byte: u8) {
        if let Some(life) = &mut self.life {
            // One byte: the pipe contains at most the few written before.
            let _ = life.write_all(&[byte]);
        }
    }
}

fn sender(pipe: PipeWriter) -> io::Result<Sender> {
    Sender::from_owned_fd(pipe.into())
}

/// Returns a non-blocking read end of a pipe.
///
/// # Errors
///
/// The system's error of registering it.
pub(crate) fn receiver(pipe: PipeReader) -> io::Result<Receiver> {
    Receiver::from_owned_fd(pipe.into())
}
