//! Sends one request to another daemon of the same state dir: to stop it, or to check its workers'
//! health.
//! It must not start a daemon or retry; the CLI does.

use std::path::Path;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::http::header::{CONTENT_TYPE, HOST};
use axum::http::{Method, Request};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use subagent_config::proc;
use subagent_protocol::api::{DaemonInfo, Envelope, header};
use subagent_protocol::{Code, Error, PROTOCOL, Result};
use tokio::net::UnixStream;

/// Maximum size of an answer. The requests made here have small ones.
const MAX_ANSWER_BYTES: usize = 16 * 1024 * 1024;

/// Sends one request and returns the `data` of the answer.
///
/// # Errors
/// The daemon's own error; `DAEMON_NOT_RUNNING` if no process accepts, `DAEMON_UNRESPONSIVE`
/// without an answer in `time`.
pub(super) fn request(
    daemon: &DaemonInfo,
    method: Method,
    path: &str,
    body: Option<&Value>,
    time: Duration,
) -> Result<Value> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|cause| Error::new(Code::Internal, format!("no runtime for a request: {cause}")))?;
    let exchange = exchange(daemon, method, path, body);
    runtime.block_on(async { tokio::time::timeout(time, exchange).await }).unwrap_or_else(|_| {
        let seconds = time.as_secs();
        let message =
            format!("the daemon (pid {}) did not answer {path} within {seconds} s", daemon.process.pid);
        Err(Error::new(Code::DaemonUnresponsive, message)
            .with("pid", daemon.process.pid)
            .recommend(advice(daemon.process.pid)))
    })
}

/// Returns the next step for a daemon that does not answer.
pub(super) fn advice(pid: i32) -> String {
    if proc::is_stopped(pid) {
        format!(
            "It is stopped by a signal: resume it with `kill -CONT {pid}`, or end it with `kill -KILL {pid}`; workers go on."
        )
    } else {
        format!("If it does not recover, end it with `kill {pid}`; workers go on.")
    }
}

async fn exchange(daemon: &DaemonInfo, method: Method, path: &str, body: Option<&Value>) -> Result<Value> {
    let socket: &Path = &daemon.socket;
    let not_running = |cause: &dyn std::fmt::Display| {
        Error::new(
            Code::DaemonNotRunning,
            format!("the daemon cannot be reached at {}: {cause}", socket.display()),
        )
        .with("socket", socket.display().to_string())
        .retryable()
    };
    let stream = UnixStream::connect(socket).await.map_err(|cause| not_running(&cause))?;
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(|cause| not_running(&cause))?;
    // The task ends with the runtime, which serves only this request.
    tokio::spawn(connection);
    let mut request = Request::builder()
        .method(method)
        .uri(path)
        .header(HOST, "localhost")
        .header(CONTENT_TYPE, "application/json")
        .header(header::PROTOCOL, PROTOCOL);
    // `daemon.json` was read from the state dir that it names.
    if let Some(folder) = &daemon.state_folder {
        request = request.header(header::STATE_DIR, folder.to_string());
    }
    let request = request
        .body(body.map_or_else(Body::empty, |body| Body::from(body.to_string())))
        .map_err(|cause| Error::new(Code::Internal, format!("a request cannot be made: {cause}")))?;
    let response = sender.send_request(request).await.map_err(|cause| not_running(&cause))?;
    let bytes = to_bytes(Body::new(response.into_body()), MAX_ANSWER_BYTES)
        .await
        .map_err(|cause| not_running(&cause))?;
    let envelope: Envelope<Value> = serde_json::from_slice(&bytes).map_err(|cause| {
        Error::new(
            Code::DaemonUnresponsive,
            format!("the process that listens at {} is not a daemon: {cause}", socket.display()),
        )
    })?;
    match envelope.error {
        Some(error) => Err(error),
        None => Ok(envelope.data.unwrap_or_default()),
    }
}
