//! The command that brings `subagent-runtime` to the place of a worker: on this machine, or by the
//! user's ssh client. Must not put anything of a start on a command line.

use std::collections::HashSet;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use subagent_config::environment::passes_on;
use subagent_protocol::ids::{WorkerId, hex};
use subagent_protocol::placement::ssh::{self, SshPlacement};
use subagent_protocol::placement::{PLACED_THERE, Placement};
use subagent_protocol::{Code, Error, Result};
use tokio::process::Command;

use super::place::placed_root;
use crate::supervisor::shared::DaemonSettings;

/// The variable of the daemon that the command gets, beside those that every process gets.
const PASSED_ON: &str = "SUBAGENT_LOG";
/// Time limit of the removal of a worker's files there.
const DISCARD_TIMEOUT: Duration = Duration::from_secs(20);

#[derive(Debug)]
pub(super) enum Carrier {
    /// A process on this machine, without a client.
    Here {
        program: PathBuf,
        root: PathBuf,
    },
    Ssh {
        placement: SshPlacement,
        program: String,
    },
}

impl Carrier {
    pub(super) fn of(placement: &Placement, setup: &DaemonSettings) -> Self {
        match placement {
            Placement::Loopback => {
                Self::Here { program: setup.runtime_program.clone(), root: placed_root(&setup.state_dir) }
            }
            Placement::Ssh(placement) => Self::Ssh {
                placement: placement.clone(),
                // The daemon stores none without a program: see `with_program`.
                program: placement.program.clone().unwrap_or_else(|| "subagent-runtime".to_owned()),
            },
        }
    }

    pub(super) fn remote(&self) -> Option<&SshPlacement> {
        match self {
            Self::Here { .. } => None,
            Self::Ssh { placement, .. } => Some(placement),
        }
    }

    /// The program as the place knows it.
    pub(super) fn program(&self) -> String {
        match self {
            Self::Here { program, .. } => program.display().to_string(),
            Self::Ssh { program, .. } => program.clone(),
        }
    }

    /// The folder of the placed workers; `None` where the place itself chooses it.
    pub(super) fn root(&self) -> Option<PathBuf> {
        match self {
            Self::Here { root, .. } => Some(root.clone()),
            Self::Ssh { .. } => None,
        }
    }

    /// Returns the command that runs `subagent-runtime VERB WORKER` there.
    pub(super) fn command(&self, verb: &str, worker: &WorkerId) -> Command {
        let mut command = match self {
            Self::Here { program, .. } => {
                let mut command = Command::new(program);
                command.args([verb, worker.as_str()]);
                command
            }
            Self::Ssh { placement, program } => {
                let mut command = Command::new(ssh::CLIENT);
                // Only agents need what a login shell sets.
                let line = ssh::line(program, &[verb, worker.as_str()], verb == "submit");
                command.args(placement.arguments(&line));
                command
            }
        };
        command
            .current_dir("/")
            .env_clear()
            .envs(std::env::vars_os().filter(|(name, _)| passes_on(name) || name == PASSED_ON))
            .envs(subagent_failpoint::armed_with());
        command
    }
}

/// Returns the placement with the path of the runtime there. A worker keeps it, so that its runtime
/// and `dial` are of one version.
///
/// # Errors
/// `BACKEND_RUNTIME_ERROR` if the runtime of this installation cannot be read.
pub(crate) async fn with_program(
    placement: Option<Placement>,
    setup: &DaemonSettings,
) -> Result<Option<Placement>> {
    match placement {
        Some(Placement::Ssh(ssh)) if ssh.program.is_none() => {
            let program = setup.runtime_program.clone();
            let hashed = tokio::task::spawn_blocking(move || sha256(&program)).await;
            let hashed = hashed.unwrap_or_else(|error| Err(std::io::Error::other(error)));
            let hashed = hashed.map_err(|error| {
                let message = format!("{} cannot be read: {error}", setup.runtime_program.display());
                Error::new(Code::BackendRuntimeError, message)
            })?;
            let program = ssh::prepared_program(env!("CARGO_PKG_VERSION"), &hashed);
            Ok(Some(Placement::Ssh(SshPlacement { program: Some(program), ..ssh })))
        }
        other => Ok(other),
    }
}

/// Removes the files of a removed worker on another machine. One that cannot be reached keeps them;
/// the log says where. It is tried once, and then is one of `silent_hosts`.
pub(crate) async fn discard(
    placement: &Placement,
    setup: &DaemonSettings,
    worker: &WorkerId,
    silent_hosts: &mut HashSet<String>,
) {
    let carrier = Carrier::of(placement, setup);
    let Some(remote) = carrier.remote() else { return };
    if silent_hosts.contains(&remote.host) {
        let host = &remote.host;
        tracing::warn!(%worker, %host, "the files of a removed worker are left in {PLACED_THERE}");
        return;
    }
    let mut command = carrier.command("discard", worker);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).kill_on_drop(true);
    let why = match tokio::time::timeout(DISCARD_TIMEOUT, command.output()).await {
        Ok(Ok(output)) if output.status.success() => return,
        // The client has reached the host.
        Ok(Ok(output)) if output.status.code() != Some(ssh::CLIENT_FAILED) => ssh::cleaned(&output.stderr),
        outcome => {
            silent_hosts.insert(remote.host.clone());
            match outcome {
                Ok(Ok(output)) => ssh::cleaned(&output.stderr),
                Ok(Err(error)) => error.to_string(),
                Err(_) => "it did not end in time".to_owned(),
            }
        }
    };
    tracing::warn!(%worker, host = %remote.host, why, "the files of a removed worker are left in {PLACED_THERE}");
}

fn sha256(path: &Path) -> std::io::Result<String> {
    let mut file = std::fs::File::open(path)?;
    let (mut hash, mut buffer) = (Sha256::new(), vec![0; 256 * 1024]);
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hex(&hash.finalize())),
            length => hash.update(&buffer[..length]),
        }
    }
}
