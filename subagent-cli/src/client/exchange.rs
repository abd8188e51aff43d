//! One request and its response on an existing connection.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Body as _, Incoming};
use hyper::{Method, Request, Response};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use subagent_protocol::api::{ControllerHandle, header};
use subagent_protocol::{Code, PROTOCOL};

use super::REQUEST_LIMIT;
use super::connect::DaemonConnection;
use crate::failure::{Failure, Result};
use crate::random::random;

/// Maximum capacity in bytes that is reserved for an announced response size.
const MAX_RESERVED: usize = 256 * 1024 * 1024;

/// A request that can be sent repeatedly.
#[derive(Debug, Clone)]
pub struct ApiRequest {
    method: Method,
    path: String,
    body: Option<Bytes>,
    key: Option<String>,
    task_token: Option<String>,
    pub(crate) limit: Option<Duration>,
    /// How long the daemon waits at most before it answers.
    pub(super) wait: Option<Duration>,
    /// Whether the daemon answers only after something that people or agents do.
    pub(super) waits: bool,
}

impl ApiRequest {
    /// Creates a GET request with the default timeout.
    #[must_use]
    pub fn get(path: impl Into<String>) -> Self {
        Self {
            method: Method::GET,
            path: path.into(),
            body: None,
            key: None,
            task_token: None,
            limit: Some(REQUEST_LIMIT),
            wait: None,
            waits: false,
        }
    }

    /// Creates a request that changes nothing but has a body (a wait).
    ///
    /// # Errors
    /// `INTERNAL_ERROR` if the body cannot be serialized.
    pub fn post(path: impl Into<String>, body: &impl Serialize) -> Result<Self> {
        let body = serde_json::to_vec(body)
            .map_err(|error| Failure::internal(format!("cannot write a request: {error}")))?;
        Ok(Self { method: Method::POST, body: Some(body.into()), ..Self::get(path) })
    }

    /// Creates a request that changes state. An idempotency key makes repetitions safe.
    ///
    /// # Errors
    /// `INTERNAL_ERROR` if the body cannot be serialized or the system gives no random bytes.
    pub fn change(path: impl Into<String>, body: &impl Serialize) -> Result<Self> {
        Ok(Self::post(path, body)?.keyed(random::<16>()?))
    }

    /// Creates the same request with another body and the same key, after the first one was refused.
    ///
    /// # Errors
    /// `INTERNAL_ERROR` if the body cannot be serialized.
    pub fn once_more(&self, body: &impl Serialize) -> Result<Self> {
        let new = Self::post(self.path.as_str(), body)?;
        Ok(Self {
            key: self.key.clone(),
            task_token: self.task_token.clone(),
            limit: self.limit,
            wait: self.wait,
            waits: self.waits,
            ..new
        })
    }

    /// Sets the idempotency key.
    #[must_use]
    pub fn keyed(mut self, key: String) -> Self {
        self.key = Some(key);
        self
    }

    /// Makes a change part of a whole with this idempotency key: its own key is made of that key and its path.
    pub(super) fn part_of(mut self, whole: Option<&str>) -> Self {
        if let (Some(own), Some(whole)) = (&mut self.key, whole) {
            *own = format!("{whole}{}", self.path);
        }
        self
    }

    /// Sets the token of an agent, so that the request acts for its tasks.
    #[must_use]
    pub fn with_task_token(mut self, token: Option<&str>) -> Self {
        self.task_token = token.map(str::to_owned);
        self
    }

    /// Sets the timeout; `None` waits as long as the daemon lives.
    #[must_use]
    pub fn within(mut self, limit: Option<Duration>) -> Self {
        self.limit = limit;
        self
    }

    /// Sets how long the daemon waits. It also counts while a lost host is dialed again.
    #[must_use]
    pub(super) fn waiting(mut self, wait: Option<Duration>) -> Self {
        (self.wait, self.waits) = (wait, true);
        self
    }

    fn request(
        &self,
        link: &DaemonConnection,
        handle: Option<&ControllerHandle>,
    ) -> Result<Request<Full<Bytes>>> {
        // The daemon refuses other hosts, which a request of a web page would name.
        let mut request = Request::builder()
            .method(self.method.clone())
            .uri(&self.path)
            .header(hyper::header::HOST, "localhost")
            .header(header::PROTOCOL, PROTOCOL);
        if let Some(folder) = &link.folder {
            request = request.header(header::STATE_DIR, folder.to_string());
        }
        if self.body.is_some() {
            request = request.header(hyper::header::CONTENT_TYPE, "application/json");
        }
        if let Some(key) = &self.key {
            request = request.header(header::IDEMPOTENCY_KEY, key);
        }
        if let Some(token) = &self.task_token {
            request = request.header(header::TASK_TOKEN, token);
        }
        if let Some(handle) = handle {
            request = request
                .header(header::CONTROLLER_ID, &handle.controller_id)
                .header(header::CONTROLLER_EPOCH, &handle.epoch)
                .header(header::CONTROLLER_TOKEN, &handle.token);
        }
        request
            .body(Full::new(self.body.clone().unwrap_or_default()))
            .map_err(|error| Failure::internal(format!("cannot build a request: {error}")))
    }
}

/// The reason for a missing response. The request may have been executed.
#[derive(Debug)]
pub(super) enum Lost {
    /// The connection broke, with its error.
    Broken(String),
    Leaving,
}

/// The result of a request: a response or error of the daemon, or a lost connection.
pub(super) type Exchange<T> = std::result::Result<Result<T>, Lost>;

/// Sends a request and reads the head of the response.
pub(super) async fn send(
    link: &mut DaemonConnection,
    ask: &ApiRequest,
    handle: Option<&ControllerHandle>,
) -> Exchange<Response<Incoming>> {
    let request = match ask.request(link, handle) {
        Ok(request) => request,
        Err(failure) => return Ok(Err(failure)),
    };
    if let Err(error) = link.sender.ready().await {
        return Err(Lost::Broken(error.to_string()));
    }
    match link.sender.send_request(request).await {
        Ok(response) => Ok(Ok(response)),
        Err(error) => broken(&error),
    }
}

/// Sends a request and reads the whole response.
pub(super) async fn exchange<T: DeserializeOwned + Default>(
    link: &mut DaemonConnection,
    ask: &ApiRequest,
    handle: Option<&ControllerHandle>,
) -> Exchange<T> {
    match send(link, ask, handle).await? {
        Ok(response) => answer(response, link.max_body()).await,
        Err(failure) => Ok(Err(failure)),
    }
}

/// Reads a response: the `data` of its envelope, or its error.
pub(super) async fn answer<T: DeserializeOwned + Default>(
    response: Response<Incoming>,
    max_body: usize,
) -> Exchange<T> {
    let status = response.status();
    let bytes = match whole(response.into_body(), max_body).await {
        Ok(Some(bytes)) => bytes,
        Ok(None) => return Ok(Err(too_long("answer", max_body))),
        Err(error) => return broken(&error),
    };
    match serde_json::from_slice(&bytes) {
        Ok(DaemonResponse { error: Some(failure), .. }) if is_leaving(&failure) => Err(Lost::Leaving),
        Ok(DaemonResponse { error: Some(failure), .. }) => Ok(Err(failure)),
        Ok(DaemonResponse { ok: true, data, .. }) => Ok(Ok(data)),
        _ => Ok(Err(Failure::internal(format!(
            "the daemon's answer (HTTP status {status}) is not an envelope"
        )))),
    }
}

/// The error for a response or a line of a stream that is too long.
pub(super) fn too_long(what: &str, max: usize) -> Failure {
    Failure::new(Code::DaemonUnresponsive, format!("an {what} of the daemon has more than {max} bytes"))
        .recommend("ask for less, or look at the daemon there")
}

/// Reads a body into one buffer, preallocated because it may be large; `None` if it is too large.
async fn whole(mut body: Incoming, max: usize) -> hyper::Result<Option<Vec<u8>>> {
    let announced = usize::try_from(body.size_hint().lower()).unwrap_or(0);
    let mut bytes = Vec::with_capacity(announced.min(MAX_RESERVED).min(max));
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame?.into_data() {
            if data.len() > max.saturating_sub(bytes.len()) {
                return Ok(None);
            }
            bytes.extend_from_slice(&data);
        }
    }
    Ok(Some(bytes))
}

/// Whether the daemon asks the client to retry with the next daemon.
pub(super) fn is_leaving(failure: &Failure) -> bool {
    failure.retryable && failure.is(Code::DaemonNotRunning)
}

/// A response envelope. Error codes of other versions are accepted.
#[derive(Debug, Deserialize)]
pub(super) struct DaemonResponse<T> {
    #[serde(default)]
    pub(super) ok: bool,
    #[serde(default)]
    data: T,
    #[serde(default)]
    pub(super) error: Option<Failure>,
}

pub(super) fn broken<T>(error: &hyper::Error) -> Exchange<T> {
    if error.is_parse() || error.is_user() {
        return Ok(Err(Failure::internal(format!("the daemon's answer is not HTTP: {error}"))));
    }
    Err(Lost::Broken(error.to_string()))
}
