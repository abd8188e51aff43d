//! Requests to a daemon over its unix socket, on behalf of the process that asked the panel.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use subagent_protocol::api::{ControllerHandle, StateFolder, header};
use subagent_protocol::event::Event;
use subagent_protocol::lenient::{self, Lenient};
use subagent_protocol::{Code, Error, MAX_LINE_BYTES, PROTOCOL};
use tokio::net::UnixStream;
use tokio::time::timeout;

use crate::daemons::bridge::{BridgeResult, DaemonAddress, FarConnection};
use crate::daemons::far_error;

/// How long a daemon may take for an answer. A stop may take 25 s.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// Maximum size of an answer in bytes.
const MAX_BODY: usize = 256 * 1024 * 1024;
/// The same for a daemon of another host, which need not be honest.
const MAX_FAR_BODY: usize = 16 * 1024 * 1024;

/// A request to a daemon.
#[derive(Debug, Clone)]
pub(crate) struct DaemonRequest<'a> {
    pub(crate) method: Method,
    /// The path with its query.
    pub(crate) path: String,
    pub(crate) body: Bytes,
    /// The key of a change, so that it is carried out once.
    pub(crate) key: Option<&'a str>,
    /// The processes that asked the panel.
    pub(crate) behalf: &'a str,
    pub(crate) handle: Option<ControllerHandle>,
}

impl<'a> DaemonRequest<'a> {
    pub(crate) fn get(path: impl Into<String>, behalf: &'a str) -> Self {
        Self { method: Method::GET, path: path.into(), body: Bytes::new(), key: None, behalf, handle: None }
    }

    fn request(
        &self,
        folder: Option<&StateFolder>,
        is_far: bool,
    ) -> Result<Request<Full<Bytes>>, hyper::http::Error> {
        let mut request = Request::builder()
            .method(&self.method)
            .uri(&self.path)
            .header(hyper::header::HOST, "localhost")
            .header(header::PROTOCOL, PROTOCOL);
        // Another host would take the numbers for processes of its own.
        if !is_far {
            request = request.header(header::ON_BEHALF_OF, self.behalf);
        }
        if let Some(folder) = folder {
            request = request.header(header::STATE_DIR, folder.to_string());
        }
        if let Some(key) = self.key {
            request = request.header(header::IDEMPOTENCY_KEY, key);
        }
        if let Some(handle) = self.handle.as_ref().filter(|_| !is_far) {
            request = request
                .header(header::CONTROLLER_ID, &handle.controller_id)
                .header(header::CONTROLLER_EPOCH, &handle.epoch)
                .header(header::CONTROLLER_TOKEN, &handle.token);
        }
        request.body(Full::new(self.body.clone()))
    }

    /// The data of the answer's envelope.
    pub(crate) async fn send(&self, to: &DaemonAddress) -> BridgeResult {
        limited(KeptConnection::open(to)).await?.ask(self).await
    }

    /// The data as a type.
    pub(crate) async fn read<T: DeserializeOwned>(&self, to: &DaemonAddress) -> Result<T, Value> {
        let data = self.send(to).await?;
        serde_json::from_value(data).map_err(|problem| {
            error(&Error::new(Code::Internal, format!("the daemon's answer cannot be read: {problem}")))
        })
    }

    /// The lines of an answer that goes on.
    pub(crate) async fn lines(&self, to: &DaemonAddress) -> Result<EventLines, Value> {
        let mut connection = limited(KeptConnection::open(to)).await?;
        let response = connection.begin(self).await?;
        if response.status().is_success() {
            let host = connection.host;
            return Ok(EventLines { body: response.into_body(), rest: BytesMut::new(), searched: 0, host });
        }
        connection
            .finish(response)
            .await
            .and_then(|_| Err(error(&Error::new(Code::Internal, "the daemon's answer is not a stream"))))
    }
}

fn gone(why: &str) -> Value {
    error(
        &Error::new(Code::DaemonNotRunning, format!("the daemon does not answer: {why}"))
            .retryable()
            .recommend("wait until it is back, or start it with `subagent daemon start`"),
    )
}

async fn limited<T>(asked: impl Future<Output = Result<T, Value>>) -> Result<T, Value> {
    timeout(LIMIT, asked).await.unwrap_or_else(|_| Err(gone("it takes too long")))
}

/// A connection with a daemon, for one request after the other. It ends when this and the answers are dropped.
pub(crate) struct KeptConnection {
    sender: http1::SendRequest<Full<Bytes>>,
    folder: Option<StateFolder>,
    /// The host of the daemon; `None` is this machine.
    host: Option<Arc<str>>,
}

impl KeptConnection {
    pub(crate) async fn open(to: &DaemonAddress) -> Result<Self, Value> {
        let (stream, folder, carrier, host) = match to {
            DaemonAddress::Socket { socket, state_folder } => {
                let stream = UnixStream::connect(socket).await.map_err(|error| gone(&error.to_string()))?;
                (stream, state_folder.clone(), None, None)
            }
            DaemonAddress::Far(far) => {
                let host = far.host();
                let dialed = far.dial().await.map_err(|error| far_error::of_host(host, &error))?;
                let FarConnection { stream, state_folder, carrier } = dialed;
                (stream, state_folder, Some(carrier), Some(host.into()))
            }
        };
        let (sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(|error| gone(&error.to_string()))?;
        tokio::spawn(async move {
            // The error is that of the request.
            let _ = connection.await;
            drop(carrier);
        });
        Ok(Self { sender, folder, host })
    }

    /// The data of the envelope that answers a request.
    pub(crate) async fn ask(&mut self, request: &DaemonRequest<'_>) -> BridgeResult {
        let response = self.begin(request).await?;
        self.finish(response).await
    }

    /// Sends a request, and reads the head of the answer.
    async fn begin(&mut self, request: &DaemonRequest<'_>) -> Result<Response<Incoming>, Value> {
        let request = request.request(self.folder.as_ref(), self.host.is_some()).map_err(|problem| {
            error(&Error::new(Code::InvalidArgument, format!("this cannot be asked: {problem}")))
        })?;
        let sent = async {
            self.sender.ready().await.map_err(|error| gone(&error.to_string()))?;
            self.sender.send_request(request).await.map_err(|error| gone(&error.to_string()))
        };
        limited(sent).await
    }

    async fn finish(&self, response: Response<Incoming>) -> BridgeResult {
        let limit = if self.host.is_some() { MAX_FAR_BODY } else { MAX_BODY };
        let answer = whole(response, limit).await.and_then(|body| envelope(&body));
        match &self.host {
            Some(host) => answer.map_err(|error| far_error::of_host(host, &error)),
            None => answer,
        }
    }
}

/// Reads the body of an answer.
async fn whole(response: Response<Incoming>, limit: usize) -> Result<Bytes, Value> {
    let body = Limited::new(response.into_body(), limit);
    match timeout(LIMIT, body.collect()).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(problem)) if problem.is::<LengthLimitError>() => {
            Err(error(&Error::new(Code::Internal, "the daemon's answer is too large")))
        }
        _ => Err(error(&Error::new(Code::DaemonNotRunning, "the daemon's answer broke off").retryable())),
    }
}

/// An error as an envelope has it.
pub(crate) fn error(error: &Error) -> Value {
    json!(error)
}

fn envelope(body: &[u8]) -> BridgeResult {
    let reply = serde_json::from_slice(body)
        .map_err(|_| error(&Error::new(Code::Internal, "the daemon's answer is not an envelope")))?;
    let DaemonReply { ok, data, error } = lenient::take(reply);
    if ok.0 == Some(true) { Ok(data) } else { Err(error) }
}

/// The envelope of an answer.
#[derive(Default, Deserialize)]
#[serde(default)]
struct DaemonReply {
    ok: Lenient<bool>,
    data: Value,
    error: Value,
}

/// Lines with events, as they come.
pub(crate) struct EventLines {
    body: Incoming,
    rest: BytesMut,
    /// Bytes of the rest that have no end of a line: a line may come in thousands of pieces.
    searched: usize,
    host: Option<Arc<str>>,
}

/// The error of a stream that breaks off.
pub(crate) fn broken_off(message: &str) -> Value {
    error(&Error::new(Code::DaemonNotRunning, message).retryable())
}

/// Reads a line: an event, or the error that ends the stream. An event of a later version that
/// cannot be read changes nothing that is shown, and is left out.
fn event_of(line: &[u8]) -> Option<Result<Event, Value>> {
    if let Ok(event) = serde_json::from_slice(line) {
        return Some(Ok(event));
    }
    let EndedStream { ok, error } = serde_json::from_slice(line).ok()?;
    (!ok).then_some(Err(error))
}

/// The last line of a stream that fails.
#[derive(Deserialize)]
struct EndedStream {
    ok: bool,
    error: Value,
}

impl EventLines {
    /// Returns the events of all whole lines that are there, as soon as there is one line; `None`
    /// after the orderly end.
    ///
    /// # Errors
    /// The daemon's error, or that the stream has broken off.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<Event>>, Value> {
        loop {
            let end = self.rest[self.searched..].iter().rposition(|byte| *byte == b'\n');
            if let Some(end) = end {
                let whole = self.rest.split_to(self.searched + end + 1);
                self.searched = 0;
                let lines = whole[..].split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
                let events = lines.filter_map(event_of).collect::<Result<_, _>>().map(Some);
                return match &self.host {
                    Some(host) => events.map_err(|error| far_error::of_host(host, &error)),
                    None => events,
                };
            }
            self.searched = self.rest.len();
            match self.body.frame().await {
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.rest.extend_from_slice(&data);
                    }
                }
                Some(Err(_)) => return Err(broken_off("the daemon has broken off the stream")),
                None => return Ok(None),
            }
            if self.rest.len() > MAX_LINE_BYTES {
                return Err(broken_off("a line of the daemon is too long"));
            }
        }
    }
}
