//! One command on another machine, by the user's ssh client, with a deadline.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use subagent_protocol::Code;
use subagent_protocol::ids::hex;
use subagent_protocol::placement::ssh::{self, SshFailure, SshPlacement};
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
        let path = sibling_executable("subagent-runtime")?;
        let bytes = std::fs::read(&path).map_err(|error| {
            Failure::new(Code::BackendRuntimeError, format!("{} cannot be read: {error}", path.display()))
        })?;
        Ok(Self { sha256: hex(&Sha256::digest(&bytes)), bytes: bytes.len() as u64, path })
    }

    /// Where this version is there.
    pub(super) fn program(&self, placement: &SshPlacement) -> String {
        let prepared = || ssh::prepared_program(env!("CARGO_PKG_VERSION"), &self.sha256);
        placement.program.clone().unwrap_or_else(prepared)
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
    pub(super) fn failure(&self, placement: &SshPlacement, program: &str) -> Failure {
        SshFailure::Exited(Some(self.code), &self.stderr).error(placement, program).into()
    }
}

/// Runs a shell line there with this file or these bytes as standard input.
///
/// # Errors
/// `PLACEMENT_UNREACHABLE`: the client failed, or the deadline passed. Other exits are results.
pub(super) async fn run(
    placement: &SshPlacement,
    line: &str,
    stdin: Option<&Path>,
    limit: Duration,
) -> Result<Printed> {
    let failed = |failure: SshFailure<'_>| Failure::from(failure.error(placement, "subagent-runtime"));
    let input = match stdin {
        Some(path) => {
            let file = std::fs::File::open(path)
                .map_err(|error| failed(SshFailure::NoClient(&error.to_string())))?;
            Stdio::from(file)
        }
        None => Stdio::null(),
    };
    let child = Command::new(ssh::CLIENT)
        .args(placement.arguments(line))
        .stdin(input)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn();
    let mut child = child.map_err(|error| failed(SshFailure::NoClient(&error.to_string())))?;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let ended = tokio::time::timeout(limit, async {
        let (_, _, status) = tokio::join!(read(stdout, &mut out), read(stderr, &mut err), child.wait());
        status
    });
    match ended.await {
        Ok(Ok(status)) => match status.code() {
            Some(code) if code != ssh::CLIENT_FAILED => Ok(Printed { code, stdout: out, stderr: err }),
            code => Err(failed(SshFailure::Exited(code, &err))),
        },
        Ok(Err(error)) => Err(failed(SshFailure::NoClient(&error.to_string()))),
        Err(_) => Err(failed(SshFailure::TimedOut(&err))),
    }
}

async fn read(from: Option<impl AsyncRead + Unpin>, to: &mut Vec<u8>) {
    if let Some(from) = from {
        // What came before an error is shown.
        let _ = from.take(MAX_OUTPUT).read_to_end(to).await;
    }
}
