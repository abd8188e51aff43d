//! One command of an engine's client, with limits of time and output. Must not decide what its answer
//! means.

use std::process::{ExitStatus, Stdio};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use subagent_protocol::Result;
use subagent_protocol::placement::client::{CLIENT_TIMEOUT, ClientFailure, REST_TIMEOUT};
use subagent_protocol::placement::engine::ClientCommand;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::Child;
use tokio::time::timeout;

use super::carrier::Carrier;
use super::stream::unreachable;

/// Maximum size of each output of a command in bytes.
const MAX_OUTPUT_BYTES: u64 = 5 * 1024 * 1024;

/// What a command has printed, and how it ended.
pub(super) struct ClientAnswer {
    /// The key of the placement, if it is a command of the user.
    key: Option<&'static str>,
    pub(super) status: ExitStatus,
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: Vec<u8>,
}

impl ClientAnswer {
    /// Returns how the command has failed.
    pub(super) fn failure(&self) -> ClientFailure<'_> {
        let code = self.status.code();
        match self.key {
            Some(key) => ClientFailure::Refused(key, code, &self.stderr),
            None => ClientFailure::Exited(code, &self.stderr),
        }
    }
}

/// The processes of a command. Dropping it kills them.
struct ClientGroup(Option<Pid>);

impl ClientGroup {
    fn of(child: &Child) -> Self {
        Self(child.id().and_then(|pid| i32::try_from(pid).ok()).map(Pid::from_raw))
    }

    /// The command has ended by itself. What it leaves is meant to go on.
    fn has_ended(&mut self) {
        self.0 = None;
    }
}

impl Drop for ClientGroup {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            // Its leader is not reaped yet, so the id is its own.
            let _ = killpg(group, Signal::SIGKILL);
        }
    }
}

/// Runs a command of the engine's client.
///
/// # Errors
/// `PLACEMENT_UNREACHABLE`: it cannot be started, did not end in time, or printed too much.
pub(super) async fn output(carrier: &Carrier, command: ClientCommand) -> Result<ClientAnswer> {
    let (key, program, input) = (command.key, command.program.clone(), command.input.clone());
    let mut client = carrier.client(command);
    client.stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() });
    client.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0).kill_on_drop(true);
    let not_started = |error: std::io::Error| match key {
        Some(key) => carrier.failure(ClientFailure::NoCommand(key, &format!("{program}: {error}"))),
        None => carrier.failure(ClientFailure::NoClient(&error.to_string())),
    };
    let mut child = client.spawn().map_err(not_started)?;
    let mut group = ClientGroup::of(&child);
    let (mut stdout, mut stderr, mut has_ended) = (Vec::new(), Vec::new(), false);
    let (stdin, out, err) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let exchange = async {
        let write = async {
            if let (Some(mut stdin), Some(input)) = (stdin, input) {
                // One that does not read it says why.
                let _ = stdin.write_all(input.as_bytes()).await;
            }
        };
        let printed = async {
            read(out, &mut stdout).await;
            has_ended = true;
        };
        let talk = async { tokio::join!(write, printed, read(err, &mut stderr)) };
        tokio::pin!(talk);
        let status = tokio::select! {
            status = child.wait() => {
                group.has_ended();
                let _ = timeout(REST_TIMEOUT, &mut talk).await;
                status
            }
            _ = &mut talk => {
                let status = child.wait().await;
                group.has_ended();
                status
            }
        };
        status.map_err(not_started)
    };
    let status = match timeout(CLIENT_TIMEOUT, exchange).await {
        Ok(status) => status?,
        Err(_) => return Err(carrier.failure(ClientFailure::TimedOut(&stderr))),
    };
    if [&stdout, &stderr].into_iter().any(|printed| printed.len() as u64 >= MAX_OUTPUT_BYTES) {
        let limit = MAX_OUTPUT_BYTES / (1024 * 1024);
        return Err(unreachable(&format!("a client of the engine printed more than {limit} MiB"), ""));
    }
    if !has_ended {
        // What is left of a line is no answer.
        stdout.truncate(stdout.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1));
    }
    Ok(ClientAnswer { key, status, stdout, stderr })
}

async fn read(from: Option<impl AsyncRead + Unpin>, to: &mut Vec<u8>) {
    if let Some(from) = from {
        // What came before an error is shown. One that goes on printing gets a broken pipe.
        let _ = from.take(MAX_OUTPUT_BYTES).read_to_end(to).await;
    }
}

/// Returns an answer that is no failure.
///
/// # Errors
/// `PLACEMENT_UNREACHABLE`, `PLACEMENT_NOT_PREPARED`.
pub(super) fn successful(carrier: &Carrier, answer: ClientAnswer) -> Result<ClientAnswer> {
    match answer.status.success() {
        true => Ok(answer),
        false => Err(carrier.failure(answer.failure())),
    }
}
