//! One start there: waits for the greeting of `submit`, sends the request, reads the answer. The
//! request is sent only to a `submit` that has greeted, so without a greeting nothing runs.

use std::io;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use subagent_protocol::ids::WorkerId;
use subagent_protocol::placement::ssh::{MAX_SAID_BYTES, SshFailure};
use subagent_protocol::placement::{SubmitAnswer, SubmitFailure};
use subagent_protocol::stream::{MAX_BANNER_BYTES, after_magic};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, ChildStderr, ChildStdout};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout, timeout_at};

use super::carrier::Carrier;
use super::place::Submitted;

/// Time limit until the greeting: a connection, a login and the user's shell.
const GREETING_TIMEOUT: Duration = Duration::from_secs(25);
/// Time limit of a start. It covers the wait for the locks of an earlier runtime.
const SUBMIT_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum length of the answer, with what a shell printed before it.
const MAX_ANSWER_BYTES: usize = MAX_BANNER_BYTES + 64 * 1024;
/// Time after the end of the command in which its last words arrive. A background process of a
/// client may keep the pipe open.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// Starts a runtime there with this request.
pub(super) async fn submit(carrier: &Carrier, worker: &WorkerId, request: &[u8]) -> Submitted {
    let mut command = carrier.command("submit", worker);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let child = subagent_failpoint::check("spawn.before").and_then(|()| command.spawn());
    let (mut child, mut stdout, stderr) = match child.and_then(parts) {
        Ok(parts) => parts,
        Err(error) => {
            return match carrier.remote() {
                Some(remote) => {
                    let why = error.to_string();
                    Submitted::NotReached(SshFailure::NoClient(&why).error(remote, &carrier.program()))
                }
                None => Submitted::NotSent(error),
            };
        }
    };
    let begun = Instant::now();
    let mut said = Vec::new();
    let greeting = timeout(GREETING_TIMEOUT, greeted(&mut stdout, &mut said)).await;
    if !matches!(greeting, Ok(Ok(true))) {
        let status = match greeting {
            Ok(_) => timeout(GREETING_TIMEOUT, child.wait()).await.ok().and_then(Result::ok),
            Err(_) => None,
        };
        return not_greeted(carrier, status, &stderr.last_words().await);
    }
    let exchange = async {
        // One that does not read this does not answer either.
        if let Some(mut stdin) = child.stdin.take() {
            let _ = stdin.write_all(request).await;
        }
        while said.len() < MAX_ANSWER_BYTES && stdout.read_buf(&mut said).await? > 0 {}
        child.wait().await
    };
    match timeout_at(begun + SUBMIT_TIMEOUT, exchange).await {
        Ok(Ok(_)) => match after_magic(&said).ok().flatten().map(serde_json::from_slice) {
            Some(Ok(SubmitAnswer::Started { process, .. })) => Submitted::Started(process),
            Some(Ok(SubmitAnswer::Failed { reason, message })) => Submitted::Failed(reason, message),
            _ => Submitted::Unknown("its answer is not readable".to_owned()),
        },
        Ok(Err(error)) => Submitted::Unknown(error.to_string()),
        Err(_) => Submitted::Unknown("it did not answer in time".to_owned()),
    }
}

fn parts(mut child: Child) -> io::Result<(Child, ChildStdout, LastWords)> {
    let missing = || io::Error::other("it has no standard output");
    let stdout = child.stdout.take().ok_or_else(missing)?;
    let stderr = child.stderr.take().ok_or_else(missing)?;
    Ok((child, stdout, LastWords::of(stderr)))
}

/// Reads until the magic line; returns false if the output ends without it.
async fn greeted(stdout: &mut ChildStdout, said: &mut Vec<u8>) -> io::Result<bool> {
    loop {
        if after_magic(said).map_err(io::Error::other)?.is_some() {
            return Ok(true);
        }
        if stdout.read_buf(said).await? == 0 {
            return Ok(false);
        }
    }
}

fn not_greeted(carrier: &Carrier, status: Option<ExitStatus>, said: &[u8]) -> Submitted {
    let Some(remote) = carrier.remote() else {
        return Submitted::Unknown("its answer is not readable".to_owned());
    };
    let program = carrier.program();
    match status.map(|status| status.code()) {
        None => Submitted::NotReached(SshFailure::TimedOut(said).error(remote, &program)),
        Some(None) => Submitted::Failed(SubmitFailure::Killed, "the ssh client was killed".to_owned()),
        Some(code) => Submitted::NotReached(SshFailure::Exited(code, said).error(remote, &program)),
    }
}

/// The end of a standard error, read while the command runs.
struct LastWords {
    bytes: Arc<Mutex<Vec<u8>>>,
    reader: JoinHandle<()>,
}

impl LastWords {
    fn of(mut stderr: ChildStderr) -> Self {
        let bytes = Arc::<Mutex<Vec<u8>>>::default();
        let kept = Arc::clone(&bytes);
        let reader = tokio::spawn(async move {
            let mut buffer = Vec::with_capacity(MAX_SAID_BYTES);
            while let Ok(1..) = stderr.read_buf(&mut buffer).await {
                let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                kept.append(&mut buffer);
                let surplus = kept.len().saturating_sub(MAX_SAID_BYTES);
                kept.drain(..surplus);
            }
        });
        Self { bytes, reader }
    }

    async fn last_words(mut self) -> Vec<u8> {
        let _ = timeout(LAST_WORDS, &mut self.reader).await;
        std::mem::take(&mut *self.bytes.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for LastWords {
    fn drop(&mut self) {
        self.reader.abort();
    }
}
