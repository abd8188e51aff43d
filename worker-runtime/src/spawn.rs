//! Starts the guard with the agent, and holds our ends of all their pipes.
//!
//! Must not interpret what comes through them.

use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use command_fds::{CommandFdExt, FdMapping};
use subagent_protocol::start::AgentCommand;
use tokio::net::unix::pipe::{Receiver, Sender};

use crate::guard;

/// The variable that marks the processes of one runtime.
const MARKER: &str = "SUBAGENT_MARKER";
/// A guard that is told this word by a test lets what it guards live.
pub(crate) const SPARE: &str = "guard.spare";
/// The executable of this process, whatever became of its path meanwhile.
const OWN_EXECUTABLE: &str = "/proc/self/exe";

/// The guard and our ends of the pipes; `None` is a closed one.
pub(crate) struct AgentIo {
    /// The guard: reaped by whoever holds this.
    pub(crate) guard: Child,
    /// To the agent's standard input.
    pub(crate) input: Option<Sender>,
    /// From the agent's standard output.
    pub(crate) output: Option<Receiver>,
    /// From the agent's standard error.
    pub(crate) errors: Option<Receiver>,
    /// From the guard.
    pub(crate) status: Option<Receiver>,
    life: Option<File>,
}

/// Starts it. The guard starts the agent and reports on the status pipe whether that worked.
///
/// # Errors
/// The system's when not even the guard could be started: the working directory is gone, for instance.
pub(crate) fn spawn(agent: &AgentCommand, marker: &str, guard_lock: OwnedFd) -> io::Result<AgentIo> {
    let (agent_input, input) = io::pipe()?;
    let (output, agent_output) = io::pipe()?;
    let (errors, agent_errors) = io::pipe()?;
    let (guard_life, life) = io::pipe()?;
    let (status, guard_status) = io::pipe()?;
    let mut command = Command::new(OWN_EXECUTABLE);
    command.arg0("subagent-runtime").arg("guard").arg("--umask").arg(format!("{:o}", agent.umask & 0o777));
    if let Some(nofile) = agent.nofile {
        command.arg("--nofile").arg(nofile.to_string());
    }
    command.arg("--").arg(&agent.program).args(&agent.args);
    command.env_clear().envs(agent.env.iter().map(|(name, value)| {
        (std::ffi::OsString::from_vec(name.0.clone()), std::ffi::OsString::from_vec(value.0.clone()))
    }));
    command.env(MARKER, marker).current_dir(&agent.cwd);
    if subagent_failpoint::sabotaged(SPARE) {
        // Of our own variables a guard hears nothing otherwise.
        command.env("SUBAGENT_SABOTAGE", SPARE);
    }
    command
        .stdin(Stdio::from(agent_input))
        .stdout(Stdio::from(agent_output))
        .stderr(Stdio::from(agent_errors));
    let mapping = |parent_fd: OwnedFd, child_fd| FdMapping { parent_fd, child_fd };
    command
        .fd_mappings(vec![
            mapping(guard_life.into(), guard::LIFE_FD),
            mapping(guard_status.into(), guard::STATUS_FD),
            mapping(guard_lock, guard::LOCK_FD),
        ])
        .map_err(io::Error::other)?;
    let guard = command.spawn()?;
    Ok(AgentIo {
        guard,
        input: Some(sender(input)?),
        output: Some(receiver(output)?),
        errors: Some(receiver(errors)?),
        status: Some(receiver(status)?),
        life: Some(File::from(OwnedFd::from(life))),
    })
}

impl AgentIo {
    /// Tells the guard to do something. A guard that is gone needs no telling.
    pub(crate) fn tell_guard(&mut self, byte: u8) {
        if let Some(life) = &mut self.life {
            // One byte: the pipe is empty but for the few that were written before.
            let _ = life.write_all(&[byte]);
        }
    }
}

fn sender(pipe: PipeWriter) -> io::Result<Sender> {
    Sender::from_owned_fd(pipe.into())
}

fn receiver(pipe: PipeReader) -> io::Result<Receiver> {
    Receiver::from_owned_fd(pipe.into())
}
