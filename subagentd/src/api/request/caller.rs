//! Identifies the caller: the handle claimed by its headers, and the origin proved by its
//! connection. Handlers get an `ApiCaller` only through [`Owner`], so they cannot act in an agent's
//! name.

use axum::extract::{ConnectInfo, FromRequestParts};
use axum::http::HeaderMap;
use axum::http::request::Parts;
use subagent_protocol::api::{ControllerHandle, header};
use subagent_protocol::ids::WorkerId;
use subagent_protocol::process::ProcessId;
use subagent_protocol::{Code, Error, Result};

use crate::api::response::reply::ApiError;
use crate::api::state::Api;
use crate::descriptors;
use crate::peer::{self, Peer, PeerError, RequestOrigin};
use crate::supervisor;
use crate::supervisor::{ApiCaller, EventScope, TaskCaller};

/// Maximum length of an idempotency key in bytes.
const MAX_KEY_BYTES: usize = 256;
/// Maximum number of processes on whose behalf one request is sent.
const MAX_BEHALF: usize = 16;

/// A caller that is not below a worker, and may make changes if its handle allows.
pub(in crate::api) struct Owner(pub(in crate::api) ApiCaller);

impl FromRequestParts<Api> for Owner {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, ApiError> {
        match origin(parts, api)? {
            RequestOrigin::Owner => Ok(Self(caller(&parts.headers)?)),
            RequestOrigin::BelowWorker(worker) => {
                Err(api.supervisor.forbidden(&worker, &what(parts)).await.into())
            }
        }
    }
}

/// A caller that only reads. From below a worker it sees only that worker.
pub(in crate::api) struct ReadOnlyCaller {
    only: Option<WorkerId>,
    what: String,
}

impl FromRequestParts<Api> for ReadOnlyCaller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, ApiError> {
        let only = match origin(parts, api)? {
            RequestOrigin::Owner => None,
            RequestOrigin::BelowWorker(worker) => Some(worker),
        };
        if let Some(worker) = only.as_ref().filter(|_| is_beyond_tasks(parts)) {
            return Err(api.supervisor.forbidden(worker, &what(parts)).await.into());
        }
        Ok(Self { only, what: what(parts) })
    }
}

impl ReadOnlyCaller {
    /// The only worker that this caller sees; `None` means all.
    pub(in crate::api) fn only(&self) -> Option<&WorkerId> {
        self.only.as_ref()
    }

    /// Returns the events of tasks below a worker that this caller sees.
    pub(in crate::api) fn sight(&self) -> EventScope {
        match self.only {
            Some(_) => EventScope::Alone,
            None => EventScope::TaskMilestones,
        }
    }

    /// Refuses to show another worker.
    pub(in crate::api) async fn may_see(&self, api: &Api, worker: &str) -> Result<(), ApiError> {
        match &self.only {
            Some(only) if only.as_str() != worker => Err(self.refuse(api, only).await),
            _ => Ok(()),
        }
    }

    /// Returns the error for a read from below this worker.
    pub(in crate::api) async fn refuse(&self, api: &Api, only: &WorkerId) -> ApiError {
        api.supervisor.forbidden(only, &self.what).await.into()
    }
}

/// A caller that uses tasks: an owner, or the agent of a worker with its task server's token. The
/// token is valid only from below its worker, and being below the worker is not enough without it.
pub(in crate::api) struct Tasker(pub(in crate::api) TaskCaller);

impl FromRequestParts<Api> for Tasker {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, ApiError> {
        let worker = match origin(parts, api)? {
            RequestOrigin::Owner => return Ok(Self(TaskCaller::Manager(caller(&parts.headers)?))),
            RequestOrigin::BelowWorker(worker) => worker,
        };
        let token = text(&parts.headers, header::TASK_TOKEN)?.unwrap_or_default();
        if !supervisor::tasks::is_task_token(&api.supervisor, &worker, token).await? {
            return Err(api.supervisor.forbidden(&worker, &what(parts)).await.into());
        }
        let idempotency_key = idempotency_key(&parts.headers)?;
        Ok(Self(TaskCaller::Parent { worker, idempotency_key }))
    }
}

/// Whether a peer on another machine reads what a task server does not need: it waits for the turns
/// of its own worker.
fn is_beyond_tasks(parts: &Parts) -> bool {
    let is_placed =
        parts.extensions.get::<ConnectInfo<Peer>>().is_some_and(|ConnectInfo(peer)| peer.is_placed());
    let path = parts.uri.path();
    is_placed && !(path.ends_with("/events/latest") || path.ends_with("/wait"))
}

fn what(parts: &Parts) -> String {
    format!("{} {}", parts.method, parts.uri.path())
}

fn origin(parts: &Parts, api: &Api) -> Result<RequestOrigin, ApiError> {
    let Some(ConnectInfo(peer)) = parts.extensions.get::<ConnectInfo<Peer>>() else {
        return Err(Error::new(Code::Internal, "the connection's peer was not recorded").into());
    };
    let guards = api.supervisor.guards();
    let own = peer.origin(&guards).map_err(|error| unplaced(peer.process(), error))?;
    if own != RequestOrigin::Owner {
        return Ok(own);
    }
    for process in behalf(&parts.headers)? {
        let origin = peer::origin_of(process, &guards).map_err(|error| unplaced(process, error))?;
        if origin != RequestOrigin::Owner {
            return Ok(origin);
        }
    }
    Ok(RequestOrigin::Owner)
}

fn unplaced(process: ProcessId, error: PeerError) -> ApiError {
    tracing::warn!(peer = ?process, %error, "a request was refused");
    if let PeerError::Unknown(cause) | PeerError::Ancestors(cause) = &error
        && descriptors::is_reached(cause)
    {
        return descriptors::too_many("cannot identify the process that sent the request").into();
    }
    let (code, advice) = match error {
        PeerError::BelowUnknown => (
            Code::ForbiddenFromWorker,
            "ask the person or program that manages the worker above this process",
        ),
        _ => (Code::ForbiddenOrigin, "send the request from the process that opened the connection"),
    };
    Error::new(code, format!("the request is refused: {error}"))
        .with("peerPid", process.pid)
        .recommend(advice)
        .into()
}

/// Returns the processes on whose behalf the request is sent. They can only reduce its rights.
fn behalf(headers: &HeaderMap) -> Result<Vec<ProcessId>> {
    let named = headers.get_all(header::ON_BEHALF_OF).iter().map(|value| {
        let wrong = || {
            let message =
                format!("the header {} must name 1 to {MAX_BEHALF} processes", header::ON_BEHALF_OF);
            Error::new(Code::InvalidArgument, message).with("header", header::ON_BEHALF_OF)
        };
        let process = |word: &str| {
            let (pid, start_time) = word.split_once(':')?;
            Some(ProcessId { pid: pid.parse().ok()?, start_time: start_time.parse().ok()? })
        };
        let words = value.to_str().map_err(|_| wrong())?.split(',');
        let processes: Vec<ProcessId> = words.map(process).collect::<Option<_>>().ok_or_else(wrong)?;
        if processes.len() > MAX_BEHALF { Err(wrong()) } else { Ok(processes) }
    });
    named.collect::<Result<Vec<_>>>().map(|named| named.concat())
}

fn caller(headers: &HeaderMap) -> Result<ApiCaller> {
    Ok(ApiCaller { handle: handle(headers)?, idempotency_key: idempotency_key(headers)? })
}

/// Returns the handle if all three parts are present. An empty part counts as absent, as in the
/// environment.
fn handle(headers: &HeaderMap) -> Result<Option<ControllerHandle>> {
    let part = |name| text(headers, name).map(|text| text.filter(|text| !text.is_empty()));
    Ok(
        match (part(header::CONTROLLER_ID)?, part(header::CONTROLLER_EPOCH)?, part(header::CONTROLLER_TOKEN)?)
        {
            (Some(controller_id), Some(epoch), Some(token)) => Some(ControllerHandle {
                controller_id: controller_id.to_owned(),
                epoch: epoch.to_owned(),
                token: token.to_owned(),
            }),
            _ => None,
        },
    )
}

fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>> {
    match text(headers, header::IDEMPOTENCY_KEY)? {
        Some(key) if key.is_empty() || key.len() > MAX_KEY_BYTES => Err(Error::new(
            Code::InvalidArgument,
            format!("an Idempotency-Key has 1 to {MAX_KEY_BYTES} bytes, not {}", key.len()),
        )
        .with("header", header::IDEMPOTENCY_KEY)),
        key => Ok(key.map(str::to_owned)),
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &'static str) -> Result<Option<&'a str>> {
    headers.get(name).map(|value| std::str::from_utf8(value.as_bytes())).transpose().map_err(|_| {
        Error::new(Code::InvalidArgument, format!("the header {name} is not UTF-8")).with("header", name)
    })
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderName, HeaderValue};

    use super::*;

    fn read(pairs: &[(&'static str, &[u8])]) -> Result<ApiCaller> {
        let pairs = pairs
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_bytes(value).unwrap()));
        caller(&pairs.collect())
    }

    const ID: (&str, &[u8]) = (header::CONTROLLER_ID, b"ctl_0123456789");
    const EPOCH: (&str, &[u8]) = (header::CONTROLLER_EPOCH, b"x");
    const TOKEN: (&str, &[u8]) = (header::CONTROLLER_TOKEN, b"secret");

    #[test]
    fn a_handle_has_three_parts_or_is_absent() {
        let handle = read(&[ID, EPOCH, TOKEN]).unwrap().handle.unwrap();
        assert_eq!((handle.epoch.as_str(), handle.token.as_str()), ("x", "secret"));
        for parts in [&[ID, EPOCH][..], &[ID, TOKEN], &[EPOCH, TOKEN], &[]] {
            assert!(read(parts).unwrap().handle.is_none());
        }
        assert!(read(&[ID, EPOCH, (header::CONTROLLER_TOKEN, b"")]).unwrap().handle.is_none());
        let error = read(&[ID, EPOCH, (header::CONTROLLER_TOKEN, b"\xff")]).unwrap_err();
        assert_eq!(error.code, Code::InvalidArgument);
    }

    #[test]
    fn processes_are_named_by_number_and_start() {
        let behalf = |value: &str| {
            let pair = (HeaderName::from_static(header::ON_BEHALF_OF), value.parse::<HeaderValue>().unwrap());
            behalf(&HeaderMap::from_iter([pair]))
        };
        let two = [ProcessId { pid: 7, start_time: 8 }, ProcessId { pid: 9, start_time: 1 }];
        assert_eq!(behalf("7:8,9:1").unwrap(), two);
        for wrong in ["", "7", "7:", "7:8,", "x:1", "7:8 9:1", &"1:1,".repeat(17)] {
            assert_eq!(behalf(wrong).unwrap_err().code, Code::InvalidArgument, "{wrong}");
        }
        assert!(super::behalf(&HeaderMap::new()).unwrap().is_empty());
    }

    #[test]
    fn keys_are_bounded_text() {
        let key =
            |value: &[u8]| read(&[(header::IDEMPOTENCY_KEY, value)]).map(|caller| caller.idempotency_key);
        assert_eq!(key("schlüssel".as_bytes()).unwrap().as_deref(), Some("schlüssel"));
        assert_eq!(read(&[]).unwrap().idempotency_key, None);
        for wrong in [&b""[..], b"\xff", &[b'k'; MAX_KEY_BYTES + 1]] {
            assert_eq!(key(wrong).unwrap_err().code, Code::InvalidArgument);
        }
    }
}
