//! One command at a place, by the client of its engine, with a deadline.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use nix::unistd::{getegid, geteuid};
use sha2::{Digest as _, Sha256};
use subagent_protocol::Code;
use subagent_protocol::ids::hex;
use subagent_protocol::mcp::TASK_SERVER_PROGRAM;
use subagent_protocol::placement::client::{ClientFailure, REST_TIMEOUT, is_of_client};
use subagent_protocol::placement::kubernetes;
use subagent_protocol::placement::podman::{self, ContainerEngine};
use subagent_protocol::placement::slurm;
use subagent_protocol::placement::ssh::{self, RemoteHost};
use subagent_protocol::placement::{Engine, Placement};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::Command;

use crate::failure::{Failure, Result};
use crate::sibling_executable::sibling_executable;

/// Time limit of a short command.
pub(super) const SHORT: Duration = Duration::from_secs(25);
/// Maximum length of the output that is read, in bytes.
const MAX_OUTPUT: u64 = 128 * 1024;

/// The runtime of this installation.
pub(super) struct LocalRuntime {
    pub(super) own: LocalProgram,
    /// The program with which agents there give tasks.
    pub(super) task_server: LocalProgram,
}

/// A program of this installation.
pub(super) struct LocalProgram {
    pub(super) path: PathBuf,
    pub(super) bytes: u64,
    pub(super) sha256: String,
}

impl LocalRuntime {
    /// Reads it.
    ///
    /// # Errors
    /// `BACKEND_RUNTIME_ERROR`.
    pub(super) fn read() -> Result<Self> {
        let [own, task_server] = ["subagent-runtime", TASK_SERVER_PROGRAM].map(LocalProgram::read);
        Ok(Self { own: own?, task_server: task_server? })
    }

    /// Where this version is there.
    pub(super) fn program(&self, placement: &Placement) -> String {
        let own = || match &placement.engine {
            Engine::Podman(_) => podman::PROGRAM.to_owned(),
            Engine::Kubernetes(_) | Engine::Command(_) => kubernetes::PROGRAM.to_owned(),
            Engine::Slurm(cluster) => {
                slurm::prepared_program(&cluster.folder, env!("CARGO_PKG_VERSION"), &self.own.sha256)
            }
            Engine::Ssh(_) | Engine::Loopback => {
                ssh::prepared_program(env!("CARGO_PKG_VERSION"), &self.own.sha256)
            }
        };
        placement.program.clone().unwrap_or_else(own)
    }

    /// Returns the command that runs a program in a new container.
    pub(super) fn in_container(
        &self,
        placement: &Placement,
        engine: &ContainerEngine,
        program: &str,
        words: &[&str],
    ) -> Command {
        let runtime = placement.program.is_none().then_some(self.own.path.as_path());
        command(engine.client(), engine.once(runtime, user(), program, words))
    }
}

/// User and group of this process, which those of a container have too.
pub(super) fn user() -> (u32, u32) {
    (geteuid().as_raw(), getegid().as_raw())
}

/// Returns a command of a client.
pub(super) fn command(client: &str, arguments: Vec<String>) -> Command {
    let mut command = Command::new(client);
    command.args(arguments);
    command
}

/// Returns the command that runs a line of a shell there.
pub(super) fn over_ssh(host: &RemoteHost, line: &str) -> Command {
    command(ssh::CLIENT, host.arguments(line))
}

impl LocalProgram {
    fn read(name: &str) -> Result<Self> {
        let path = sibling_executable(name)?;
        Self::at(&path).map_err(|error| {
            Failure::new(Code::BackendRuntimeError, format!("{} cannot be read: {error}", path.display()))
        })
    }

    /// Reads the program at a path.
    ///
    /// # Errors
    /// Those of the system.
    pub(super) fn at(path: &Path) -> std::io::Result<Self> {
        let bytes = std::fs::read(path)?;
        Ok(Self { sha256: hex(&Sha256::digest(&bytes)), bytes: bytes.len() as u64, path: path.to_owned() })
    }
}

/// What a command there printed.
pub(super) struct Printed {
    pub(super) code: i32,
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: Vec<u8>,
}

impl Printed {
    /// The last line of standard output: a shell may print others before it.
    pub(super) fn last_line(&self) -> String {
        let text = String::from_utf8_lossy(&self.stdout);
        text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default().trim().to_owned()
    }

    /// The error of a command that failed there.
    pub(super) fn failure(&self, placement: &Placement, program: &str) -> Failure {
        ClientFailure::Exited(Some(self.code), &self.stderr).error(placement, program).into()
    }
}

/// Runs a command of the placement's client with this file as standard input.
///
/// # Errors
/// `PLACEMENT_UNREACHABLE`, `PLACEMENT_NOT_PREPARED`: the client failed, or the deadline passed. Other
/// exits are results.
pub(super) async fn run(
    placement: &Placement,
    command: Command,
    stdin: Option<&Path>,
    limit: Duration,
) -> Result<Printed> {
    let printed = output(placement, (command, None), stdin, limit).await?;
    match is_of_client(&placement.engine, Some(printed.code), &printed.stderr) {
        true => Err(printed.failure(placement, "subagent-runtime")),
        false => Ok(printed),
    }
}

/// As [`run`], but only a client that gives no exit code has failed. `key` is that of a command of the
/// user.
///
/// # Errors
/// `PLACEMENT_UNREACHABLE`.
pub(super) async fn output(
    placement: &Placement,
    (mut command, key): (Command, Option<&str>),
    stdin: Option<&Path>,
    limit: Duration,
) -> Result<Printed> {
    let failed = |failure: ClientFailure<'_>| Failure::from(failure.error(placement, "subagent-runtime"));
    let program = command.as_std().get_program().display().to_string();
    let not_started = |error: std::io::Error| match key {
        Some(key) => failed(ClientFailure::NoCommand(key, &format!("{program}: {error}"))),
        None => failed(ClientFailure::NoClient(&error.to_string())),
    };
    let input = match stdin {
        Some(path) => {
            let file = std::fs::File::open(path).map_err(not_started)?;
            Stdio::from(file)
        }
        None => Stdio::null(),
    };
    let child = command.stdin(input).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true).spawn();
    let mut child = child.map_err(not_started)?;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let ended = tokio::time::timeout(limit, async {
        let rest = async { tokio::join!(read(stdout, &mut out), read(stderr, &mut err)) };
        tokio::pin!(rest);
        tokio::select! {
            status = child.wait() => {
                let _ = tokio::time::timeout(REST_TIMEOUT, &mut rest).await;
                status
            }
            _ = &mut rest => child.wait().await,
        }
    });
    match ended.await {
        Ok(Ok(status)) => match status.code() {
            Some(code) => Ok(Printed { code, stdout: out, stderr: err }),
            None => Err(failed(match key {
                Some(key) => ClientFailure::Refused(key, None, &err),
                None => ClientFailure::Exited(None, &err),
            })),
        },
        Ok(Err(error)) => Err(not_started(error)),
        Err(_) => Err(failed(ClientFailure::TimedOut(&err))),
    }
}

async fn read(from: Option<impl AsyncRead + Unpin>, to: &mut Vec<u8>) {
    if let Some(from) = from {
        // What came before an error is shown.
        let _ = from.take(MAX_OUTPUT).read_to_end(to).await;
    }
}
