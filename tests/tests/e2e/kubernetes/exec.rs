//! Commands in a pod of the fake cluster, over a WebSocket, as `kubectl exec` speaks it.

use std::io::{Read, Write as _};
use std::process::{Child, Stdio};
use std::sync::mpsc as std_mpsc;
use std::thread;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade};
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::api::{failure, no_pod};
use super::pods::FakePods;

/// The protocols, with the channels below. In the second one, an end of standard input cannot be said.
const PROTOCOLS: [&str; 2] = ["v5.channel.k8s.io", "v4.channel.k8s.io"];
const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const STATUS: u8 = 3;
/// Time that a node takes to start a command. The client drops what arrives before it has made its
/// streams, and says `Unknown stream id 1`. It has no message that would say that they are made.
const NODE_TIME: Duration = Duration::from_millis(300);
/// Time in which a client must close its side.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);
/// A message on it ends the channel that it names.
const CLOSE: u8 = 255;

pub(super) async fn exec(
    State(pods): State<FakePods>,
    Path((_, name)): Path<(String, String)>,
    Query(query): Query<Vec<(String, String)>>,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Response {
    let words: Vec<String> =
        query.into_iter().filter(|(key, _)| key == "command").map(|(_, value)| value).collect();
    if pods.get(&name).is_none() {
        return no_pod(&name);
    }
    let Ok(upgrade) = upgrade else {
        let message = "this server speaks only WebSocket";
        return failure(StatusCode::BAD_REQUEST, "BadRequest", message);
    };
    let Some(command) = pods.exec(&name, &words) else {
        let message = "unable to upgrade connection: container not found (\"agent\")";
        return failure(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", message);
    };
    // These print nothing before they have read something.
    let waits = words.iter().any(|word| word == "dial" || word == "relay");
    upgrade.protocols(PROTOCOLS).on_upgrade(move |socket| async move {
        if !waits {
            tokio::time::sleep(NODE_TIME).await;
        }
        let child = command.and_then(|mut command| {
            let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
            command.spawn().map_err(|error| error.to_string())
        });
        serve(socket, child).await;
    })
}

async fn serve(mut socket: WebSocket, child: Result<Child, String>) {
    let mut child = match child {
        Ok(child) => child,
        Err(message) => {
            let message = format!("error executing command in container: {message}");
            let status =
                json!({"status": "Failure", "reason": "InternalError", "message": message, "code": 500});
            let _ = socket.send(framed(STATUS, status.to_string().as_bytes())).await;
            return close(socket).await;
        }
    };
    let (give, mut outgoing) = mpsc::channel(4);
    let stdin = child.stdin.take().unwrap();
    let readers = [
        forward(child.stdout.take().unwrap(), STDOUT, give.clone()),
        forward(child.stderr.take().unwrap(), STDERR, give.clone()),
    ];
    // Ends with this connection, and then standard input does.
    let (feed, input) = std_mpsc::channel::<Bytes>();
    thread::spawn(move || {
        let mut stdin = stdin;
        while input.recv().is_ok_and(|bytes| stdin.write_all(&bytes).is_ok()) {}
    });
    thread::spawn(move || {
        for reader in readers {
            reader.join().unwrap();
        }
        let status = status(child.wait().unwrap().code().unwrap_or(137));
        // The client may have gone.
        let _ = give.blocking_send(framed(STATUS, status.to_string().as_bytes()));
    });
    let mut feed = Some(feed);
    loop {
        tokio::select! {
            message = outgoing.recv() => {
                let Some(message) = message else { return close(socket).await };
                if socket.send(message).await.is_err() {
                    return;
                }
            }
            message = socket.recv() => match message {
                Some(Ok(Message::Binary(bytes))) => match bytes.first() {
                    Some(&STDIN) => drop(feed.as_ref().map(|feed| feed.send(bytes.slice(1..)))),
                    Some(&CLOSE) if bytes.get(1) == Some(&STDIN) => feed = None,
                    _ => {}
                },
                Some(Ok(Message::Close(_)) | Err(_)) | None => return,
                Some(Ok(_)) => {}
            },
        }
    }
}

fn forward(
    mut from: impl Read + Send + 'static,
    channel: u8,
    to: mpsc::Sender<Message>,
) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        let mut buffer = [0; 16 * 1024];
        while let Ok(length @ 1..) = from.read(&mut buffer) {
            if to.blocking_send(framed(channel, &buffer[..length])).is_err() {
                return;
            }
        }
    })
}

/// Ends a connection. The client takes an end without a code for a failure, and also one that is reset
/// because not all of its messages were read.
async fn close(mut socket: WebSocket) {
    let close = Message::Close(Some(CloseFrame { code: 1000, reason: "".into() }));
    // The client may have gone.
    let _ = socket.send(close).await;
    let read = async { while matches!(socket.recv().await, Some(Ok(_))) {} };
    let _ = tokio::time::timeout(CLOSE_TIMEOUT, read).await;
}

fn framed(channel: u8, bytes: &[u8]) -> Message {
    Message::Binary([&[channel], bytes].concat().into())
}

fn status(code: i32) -> Value {
    match code {
        0 => json!({"metadata": {}, "status": "Success"}),
        code => json!({
            "metadata": {}, "status": "Failure", "reason": "NonZeroExitCode",
            "message": format!("command terminated with non-zero exit code: exit status {code}"),
            "details": {"causes": [{"reason": "ExitCode", "message": code.to_string()}]},
        }),
    }
}
