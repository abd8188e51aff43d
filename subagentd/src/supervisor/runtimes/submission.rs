//! One start there: waits for the greeting of `submit`, sends the request, reads the answer. The
//! request is sent only to a `submit` that has greeted, so without a greeting nothing runs.

use std::io;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use subagent_protocol::clean::one_line;
use subagent_protocol::ids::WorkerId;
use subagent_protocol::placement::client::ClientFailure;
use subagent_protocol::placement::{SubmitAnswer, SubmitFailure};
use subagent_protocol::stream::{MAX_BANNER_BYTES, after_magic};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, ChildStdout};
use tokio::time::{Instant, timeout, timeout_at};

use super::carrier::Carrier;
use super::place::Submitted;
use super::stream::{ErrorOutput, fenced, unreachable};

/// Time limit until the greeting: a connection, a login and the user's shell.
const GREETING_TIMEOUT: Duration = Duration::from_secs(25);
/// Time limit of a start. It covers the wait for the locks of an earlier runtime.
const SUBMIT_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum length of the answer, with what a shell printed before it.
const MAX_ANSWER_BYTES: usize = MAX_BANNER_BYTES + 64 * 1024;
/// Time limit of the start of a container, and of its end.
const CONTAINER_TIMEOUT: Duration = Duration::from_secs(60);

/// Starts a runtime there with this request. A container that was started for it and has no runtime
/// is ended.
pub(super) async fn submit(
    carrier: &Carrier,
    (worker, incarnation): (&WorkerId, u64),
    handle: Option<&str>,
    request: &[u8],
) -> Submitted {
    if let Err(submitted) = begin(carrier, worker, incarnation).await {
        return submitted;
    }
    let submitted = exchange(carrier, (worker, incarnation), handle, request).await;
    if leaves_place(&submitted) {
        end(carrier, worker, incarnation).await;
    }
    submitted
}

/// Whether the place that was started for a request has nothing in it that is of use. Without an answer,
/// a runtime may live. A place that serves another daemon is not for this one to end.
fn leaves_place(submitted: &Submitted) -> bool {
    match submitted {
        Submitted::Started { .. } | Submitted::Unknown(_) | Submitted::Fenced(_) => false,
        Submitted::Failed(..) | Submitted::NotSent(_) | Submitted::NotReached(_) => true,
    }
}

/// Starts the container if the place needs one.
async fn begin(carrier: &Carrier, worker: &WorkerId, incarnation: u64) -> Result<(), Submitted> {
    let command = carrier.begin(worker, incarnation).map_err(Submitted::NotSent)?;
    let (Some(mut command), Some(place)) = (command, carrier.elsewhere()) else { return Ok(()) };
    let failed = |failure: ClientFailure<'_>| Submitted::NotReached(failure.error(place, &carrier.program()));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).kill_on_drop(true);
    match timeout(CONTAINER_TIMEOUT, command.output()).await {
        Ok(Ok(output)) if output.status.success() => Ok(()),
        // Another container may have the name, so nothing is removed. A client that was killed may have started
        // this one.
        Ok(Ok(output)) => {
            if output.status.code().is_none() {
                end(carrier, worker, incarnation).await;
            }
            Err(failed(ClientFailure::Exited(output.status.code(), &output.stderr)))
        }
        Ok(Err(why)) => Err(failed(ClientFailure::NoClient(&why.to_string()))),
        Err(_) => {
            end(carrier, worker, incarnation).await;
            Err(failed(ClientFailure::TimedOut(b"")))
        }
    }
}

/// Ends the container of a runtime that was not started.
async fn end(carrier: &Carrier, worker: &WorkerId, incarnation: u64) {
    end_container(carrier, worker, &carrier.place_name(worker, incarnation)).await;
}

/// Ends all containers of a worker without a runtime. A client that has outlived its daemon may have
/// started some. The actor ends the places of an engine with a queue.
pub(super) async fn end_all(carrier: &Carrier, worker: &WorkerId, newest: u64) {
    let prefix = carrier.place_prefix(worker);
    let Some(mut list) = carrier.list(&prefix) else { return };
    list.stdin(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    let listed = timeout(CONTAINER_TIMEOUT, list.output()).await;
    let Some(listed) = listed.ok().and_then(Result::ok).filter(|listed| listed.status.success()) else {
        tracing::warn!(%worker, "its containers were not listed");
        return end(carrier, worker, newest).await;
    };
    let said = String::from_utf8_lossy(&listed.stdout);
    for name in said.lines().filter(|name| name.starts_with(&prefix)) {
        end_container(carrier, worker, name).await;
    }
}

/// Ends a container. One that stays ends by itself a minute after the worker's last runtime.
async fn end_container(carrier: &Carrier, worker: &WorkerId, name: &str) {
    let Some(mut command) = carrier.end(name) else { return };
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    let ended =
        matches!(timeout(CONTAINER_TIMEOUT, command.status()).await, Ok(Ok(status)) if status.success());
    if !ended {
        tracing::warn!(%worker, name, "a container was not removed");
    }
}

async fn exchange(
    carrier: &Carrier,
    (worker, incarnation): (&WorkerId, u64),
    handle: Option<&str>,
    request: &[u8],
) -> Submitted {
    let mut command = carrier.submit(worker, incarnation, handle).await;
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let child = subagent_failpoint::check("spawn.before").and_then(|()| command.spawn());
    let (mut child, mut stdout, stderr) = match child.and_then(parts) {
        Ok(parts) => parts,
        Err(error) => {
            return match carrier.elsewhere() {
                Some(remote) => {
                    let client = command.as_std().get_program().display();
                    let (why, of_command) = (error.to_string(), format!("{client}: {error}"));
                    let failure = match carrier.queue().is_some_and(|queue| queue.is_known_by_uid()) {
                        true => ClientFailure::NoCommand("dial", &of_command),
                        false => ClientFailure::NoClient(&why),
                    };
                    Submitted::NotReached(failure.error(remote, &carrier.program()))
                }
                None => Submitted::NotSent(error),
            };
        }
    };
    let begun = Instant::now();
    if let Some(stdin) = &mut child.stdin {
        // Says that the client passes bytes on. One that does not read this does not greet either.
        let _ = stdin.write_all(b"\n").await;
    }
    let mut said = Vec::new();
    let greeting = timeout(GREETING_TIMEOUT, greeted(&mut stdout, &mut said)).await;
    if !matches!(greeting, Ok(Ok(true))) {
        let status = match greeting {
            Ok(_) => timeout(GREETING_TIMEOUT, child.wait()).await.ok().and_then(Result::ok),
            Err(_) => None,
        };
        return not_greeted(carrier, status, &stderr.rest().await);
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
        Ok(Ok(status)) => match after_magic(&said).ok().flatten().map(serde_json::from_slice) {
            Some(Ok(SubmitAnswer::Started { process, boot_id })) => Submitted::Started { process, boot_id },
            Some(Ok(SubmitAnswer::Fenced { generation })) => Submitted::Fenced(fenced(generation)),
            Some(Ok(SubmitAnswer::Failed { reason, message })) => {
                Submitted::Failed(reason, one_line(&message))
            }
            _ => unknown(&format!("the start gave no readable answer ({status})"), &stderr.rest().await),
        },
        Ok(Err(error)) => unknown(&error.to_string(), &stderr.rest().await),
        Err(_) => {
            let why = format!("the start gave no answer within {} s", SUBMIT_TIMEOUT.as_secs());
            unknown(&why, &stderr.rest().await)
        }
    }
}

fn unknown(why: &str, said: &str) -> Submitted {
    Submitted::Unknown(unreachable(why, said))
}

fn parts(mut child: Child) -> io::Result<(Child, ChildStdout, ErrorOutput)> {
    let missing = || io::Error::other("it has no standard output");
    let stdout = child.stdout.take().ok_or_else(missing)?;
    let stderr = ErrorOutput::of(child.stderr.take());
    Ok((child, stdout, stderr))
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

fn not_greeted(carrier: &Carrier, status: Option<ExitStatus>, said: &str) -> Submitted {
    let Some(remote) = carrier.elsewhere() else {
        return unknown("the start gave no readable answer", said);
    };
    let program = carrier.program();
    match status.map(|status| status.code()) {
        None => Submitted::NotReached(ClientFailure::TimedOut(said.as_bytes()).error(remote, &program)),
        Some(None) => Submitted::Failed(SubmitFailure::Killed, "the client was killed".to_owned()),
        Some(code) => {
            Submitted::NotReached(ClientFailure::Exited(code, said.as_bytes()).error(remote, &program))
        }
    }
}

#[cfg(test)]
mod tests {
    use subagent_protocol::Code;

    use super::*;

    #[test]
    fn a_place_that_serves_another_daemon_is_not_ended() {
        let error = || subagent_protocol::Error::new(Code::PlacementUnreachable, "x");
        assert!(!leaves_place(&Submitted::Fenced(fenced(7))));
        assert!(!leaves_place(&Submitted::Unknown(error())));
        assert!(leaves_place(&Submitted::NotReached(error())));
        assert!(leaves_place(&Submitted::Failed(SubmitFailure::NoFolder, String::new())));
    }
}
