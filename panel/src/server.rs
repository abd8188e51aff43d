//! The HTTP server: who may ask, what is answered, and with which headers. Nothing leaves without them.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use hyper::body::{Body as _, Incoming};
use hyper::header::{
    AUTHORIZATION, CACHE_CONTROL, CONNECTION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER,
};
use hyper::{Method, Request, Response, StatusCode};
use serde_json::{Map, Value, json};
use subagent_config::proc;
use subagent_protocol::api::{TranscriptShown, header};
use subagent_protocol::clean::clean;
use subagent_protocol::process::ProcessId;
use subagent_protocol::{Code, Error};
use tokio::sync::{OnceCell, Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::access::doors::{self, BrowserCredential, Doors, PairingRefusal};
use crate::access::gate::{HEADERS, HostGate};
use crate::access::peer;
use crate::access::presence::PagePresence;
use crate::access::seats::Seat;
use crate::body::{self, ReplyBody};
use crate::daemons::bridge::{Bridge, BridgeResult, DaemonAddress, PanelMessage, PanelWorkspace};
use crate::daemons::daemon::{DaemonRequest, error};
use crate::daemons::errors::code_of;
use crate::daemons::far_error;
use crate::hook::HookRequests;
use crate::live::{self, Following};
use crate::render::patch;
use crate::routes::Route;
use crate::{PanelOptions, assets, story};

/// Streams at a time, of all pages.
const MAX_STREAMS: usize = 32;
/// Lines that a page has not read; then its stream waits.
const MAX_WAITING_LINES: usize = 64;
/// How long the places that were found are believed: to ask each daemon takes longer than most requests.
const PLACES_TIME: Duration = Duration::from_secs(5);
/// The path under which daemons are asked whether a process may have a session, and which they note if it may not.
const PERMISSION: &str = "/v1/panel/sessions";
/// How long a daemon of this machine may take to judge a process.
const JUDGMENT_LIMIT: Duration = Duration::from_secs(5);

/// What all connections share.
pub(crate) struct PanelState {
    pub(crate) bridge: Arc<dyn Bridge>,
    pub(crate) gate: HostGate,
    pub(crate) doors: Mutex<Doors>,
    pub(crate) deliveries: HookRequests,
    pub(crate) presence: PagePresence,
    pub(crate) streams: Arc<Semaphore>,
    pub(crate) read_only: bool,
    /// Whether connections of processes that hide their files are accepted.
    is_forwarded: bool,
    /// The places as they were found last, and when.
    places: Mutex<Option<(Instant, Vec<PanelWorkspace>)>>,
}

impl PanelState {
    pub(crate) fn new(bridge: Arc<dyn Bridge>, port: u16, options: &PanelOptions) -> Self {
        Self {
            bridge,
            gate: HostGate::new(port),
            doors: Mutex::default(),
            deliveries: HookRequests::default(),
            presence: PagePresence::new(),
            streams: Arc::new(Semaphore::new(MAX_STREAMS)),
            read_only: options.read_only,
            is_forwarded: options.is_forwarded,
            places: Mutex::default(),
        }
    }

    /// The place with this id. Daemons are asked again when those that are known are old, or it is not among them.
    async fn place(&self, id: &str) -> Option<PanelWorkspace> {
        let known = self.places.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let known = known.filter(|(found_at, _)| found_at.elapsed() < PLACES_TIME).map(|(_, places)| places);
        let is_it = |place: &PanelWorkspace| place.id == id;
        if let Some(place) = known.and_then(|places| places.into_iter().find(is_it)) {
            return Some(place);
        }
        let found = self.bridge.places().await;
        let place = found.iter().find(|place| is_it(place)).cloned();
        *self.places.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), found));
        place
    }

    pub(crate) fn doors<T>(&self, use_them: impl FnOnce(&mut Doors) -> T) -> T {
        use_them(&mut self.doors.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The processes that hold the other end of a connection.
#[derive(Clone)]
pub(crate) struct Holders {
    /// The value of the header `ON_BEHALF_OF`.
    pub(crate) header: Arc<str>,
    processes: Vec<ProcessId>,
}

impl Holders {
    fn of(processes: Vec<ProcessId>) -> Self {
        let words: Vec<String> = processes.iter().map(|id| format!("{}:{}", id.pid, id.start_time)).collect();
        Self { header: words.join(",").into(), processes }
    }

    /// Whether none of several has ended. The connection of the only one ends with it.
    fn are_alive(&self) -> bool {
        let is_alive =
            |id: &ProcessId| proc::start_time(id.pid).is_ok_and(|start_time| start_time == id.start_time);
        self.processes.len() < 2 || self.processes.iter().all(is_alive)
    }
}

/// One connection, and what was found out about its other end. Errors are not kept: the next request tries again.
pub(crate) struct BrowserConnection {
    pub(crate) shared: Arc<PanelState>,
    pub(crate) seat: Arc<Seat>,
    pub(crate) peer: SocketAddr,
    pub(crate) own: SocketAddr,
    pub(crate) found: tokio::sync::Mutex<Option<Holders>>,
    /// Whether the process may act as an owner. It stays below an agent, or above all, for as long as it lives.
    pub(crate) permitted: OnceCell<()>,
}

impl BrowserConnection {
    /// Answers a request; an error becomes a response too.
    pub(crate) async fn answer(&self, request: Request<Incoming>) -> Response<ReplyBody> {
        let mut response = self.respond(request).await.unwrap_or_else(|error| refusal(&error));
        let headers = response.headers_mut();
        for (name, value) in HEADERS {
            headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        response
    }

    async fn respond(&self, request: Request<Incoming>) -> Result<Response<ReplyBody>, Value> {
        let (parts, incoming) = request.into_parts();
        self.shared
            .gate
            .check(&parts.method, &parts.uri, &parts.headers)
            .map_err(|problem| error(&problem))?;
        let path = parts.uri.path();
        let missing = || {
            error(
                &Error::new(Code::InvalidArgument, "the panel has nothing at this address")
                    .with("path", path),
            )
        };
        let route = Route::of(&parts.method, path).ok_or_else(missing)?;
        if route == Route::File {
            return assets::find(path).map(|(kind, text)| whole(kind, text.into())).ok_or_else(missing);
        }
        let is_change = parts.method == Method::POST;
        if !is_change && !incoming.is_end_stream() {
            return Err(error(&Error::new(Code::InvalidInput, "a GET has no body")));
        }
        if route == Route::Session {
            return self.open_session(body::read(incoming).await.map_err(|problem| error(&problem))?).await;
        }
        if let Route::Hook { trigger } = &route {
            let data = self.hook(&parts.headers, incoming, trigger).await?;
            return Ok(json_response(StatusCode::OK, &json!({"ok": true, "data": data})));
        }
        let given = bearer(&parts.headers);
        if !self.shared.doors(|doors| doors.is_session(given)) {
            return Err(error(&unauthorized("the session of this page is not known")));
        }
        if !self.seat.is_of_page() {
            return Err(error(&busy("too many pages are open")));
        }
        if is_change && self.shared.read_only {
            return Err(error(&read_only()));
        }
        // Only a page may send a body, which may be slow.
        let bytes = if is_change {
            body::read(incoming).await.map_err(|problem| error(&problem))?
        } else {
            Bytes::new()
        };
        let visit = self.shared.presence.visit();
        let query = parts.uri.query().unwrap_or_default();
        let key = parts.headers.get(header::IDEMPOTENCY_KEY).and_then(|value| value.to_str().ok());
        let behalf = self.holders().await?.header;
        let bridge = Arc::clone(&self.shared.bridge);
        let data = match route {
            Route::Live => {
                self.permission().await?;
                return self.stream(visit, |out| live::all(bridge, behalf, out));
            }
            Route::Follow { place, worker } => {
                let from = value_of(query, "from");
                let following = Following { place: self.place(&place).await?, bridge, behalf, worker, from };
                return self.stream(visit, |out| following.run(out));
            }
            Route::Page { place, worker } => {
                let before =
                    value_of(query, "before").map(|before| format!("&before={before}")).unwrap_or_default();
                let path = format!("/v1/workers/{worker}/transcript?limit=500{before}");
                let address = self.address(&self.place(&place).await?, is_change).await?;
                let shown: TranscriptShown = DaemonRequest::get(path, &behalf).read(&address).await?;
                story::page(&shown)
            }
            Route::Diff { place, worker } => {
                let address = self.address(&self.place(&place).await?, is_change).await?;
                let ask = DaemonRequest::get(format!("/v1/workers/{worker}/diff"), &behalf);
                cleaned(diff(ask.send(&address).await?))
            }
            Route::Forward { place, path } => {
                let place = self.place(&place).await?;
                let address = self.address(&place, is_change).await?;
                let path = if query.is_empty() { path } else { format!("{path}?{query}") };
                let handle = bridge.handle();
                let ask =
                    DaemonRequest { method: parts.method, path, body: bytes, key, behalf: &behalf, handle };
                cleaned(ask.send(&address).await?)
            }
            Route::Choices { .. }
            | Route::Start { .. }
            | Route::Send { .. }
            | Route::HandOff { .. }
            | Route::Land { .. } => {
                self.permission().await?;
                self.command(route, &bytes, key.map(str::to_owned)).await?
            }
            Route::File | Route::Session | Route::Hook { .. } => return Err(missing()),
        };
        Ok(json_response(StatusCode::OK, &json!({"ok": true, "data": data})))
    }

    /// What the commands of the same name do.
    async fn command(&self, route: Route, bytes: &[u8], key: Option<String>) -> BridgeResult {
        let bridge = &self.shared.bridge;
        match route {
            Route::Choices { place } => bridge.choices(&self.place(&place).await?).await.map(cleaned),
            Route::Start { place } => {
                bridge.start(&self.place(&place).await?, object(bytes)?).await.map(cleaned)
            }
            Route::Send { place, worker } => {
                let said = object(bytes)?;
                let word = |key: &str| said.get(key).and_then(Value::as_str).map(str::to_owned);
                let text = word("text").filter(|text| !text.trim().is_empty()).ok_or_else(|| {
                    error(&Error::new(Code::InvalidInput, "a message needs a text").with("field", "text"))
                })?;
                let message = PanelMessage { worker, text, if_busy: word("ifBusy"), key };
                let place = self.place(&place).await?;
                let sent = bridge.send(&place, message).await;
                sent.map(cleaned).map_err(|problem| far_error::of_place(&place, problem))
            }
            Route::HandOff { place, worker } => {
                bridge.hand_off(&self.place(&place).await?, worker, key).await.map(cleaned)
            }
            Route::Land { place, worker } => {
                bridge.land(&self.place(&place).await?, worker).await.map(cleaned)
            }
            _ => Ok(Value::Null),
        }
    }

    async fn open_session(&self, bytes: Bytes) -> Result<Response<ReplyBody>, Value> {
        let given = object(&bytes)?;
        self.permission().await?;
        let session = doors::token().map_err(|problem| {
            error(&Error::new(Code::Internal, format!("cannot get random bytes: {problem}")))
        })?;
        let now = Instant::now();
        let word = |key: &str| given.get(key).and_then(Value::as_str);
        let secret =
            word("token").map(BrowserCredential::Token).or_else(|| word("code").map(BrowserCredential::Code));
        let exchanged = secret
            .ok_or(PairingRefusal::Wrong)
            .and_then(|secret| self.shared.doors(|doors| doors.exchange(secret, session.clone(), now)));
        match exchanged {
            Ok(()) => {
                let data =
                    json!({"session": session, "readOnly": self.shared.read_only, "page": *assets::PAGE});
                Ok(json_response(StatusCode::OK, &json!({"ok": true, "data": data})))
            }
            Err(PairingRefusal::Wrong) => {
                Err(error(&unauthorized("this link or code is wrong, too old, or was used before")))
            }
            Err(PairingRefusal::TooMany) => Err(error(&busy("too many wrong links or codes; wait a minute"))),
        }
    }

    /// The processes at the other end. One that inherited the connection and has ended counts no more.
    pub(crate) async fn holders(&self) -> Result<Holders, Value> {
        let mut found = self.found.lock().await;
        if let Some(holders) = found.as_ref().filter(|holders| holders.are_alive()) {
            return Ok(holders.clone());
        }
        let (peer, own, is_forwarded) = (self.peer, self.own, self.shared.is_forwarded);
        let looked = tokio::task::spawn_blocking(move || peer::holders(peer, own, is_forwarded)).await;
        let processes = looked
            .unwrap_or_else(|problem| Err(Error::new(Code::Internal, problem.to_string())))
            .map_err(|problem| error(&problem))?;
        Ok(found.insert(Holders::of(processes)).clone())
    }

    /// Refuses a process below an agent. The daemon whose worker that is notes it.
    pub(crate) async fn permission(&self) -> Result<(), Value> {
        self.permitted.get_or_try_init(|| self.ask_permission()).await.copied()
    }

    async fn ask_permission(&self) -> Result<(), Value> {
        let Holders { header: behalf, processes: holders } = self.holders().await?;
        // The daemon of a worker notes what its agent tried, so all are asked even if the answer is known.
        let is_below = holders.iter().any(|id| proc::is_below_guard_of(id.pid));
        let mut asked = JoinSet::new();
        // A daemon of another host cannot judge processes of this machine.
        let places = self.shared.bridge.places().await;
        for place in places.into_iter().filter(|place| place.host.is_none()) {
            asked.spawn(judge(Arc::clone(&self.shared.bridge), place, Arc::clone(&behalf)));
        }
        while let Some(judged) = asked.join_next().await {
            judged.unwrap_or(Ok(()))?;
        }
        if is_below {
            let message = "the process that sent the request was started by an agent";
            return Err(error(&Error::new(Code::ForbiddenFromWorker, message)));
        }
        Ok(())
    }

    /// The address of the daemon of a place. Only a change starts a daemon that was stopped, and only if the process that sent
    /// it is permitted.
    pub(crate) async fn address(
        &self,
        place: &PanelWorkspace,
        is_change: bool,
    ) -> Result<DaemonAddress, Value> {
        let bridge = &self.shared.bridge;
        if place.host.is_some() {
            if is_change {
                self.permission().await?;
            }
            let found = bridge.address(place, is_change).await;
            return found.map_err(|problem| far_error::of_place(place, problem));
        }
        match bridge.address(place, false).await {
            Err(problem) if is_change && code_of(&problem) == "DAEMON_NOT_RUNNING" => {
                self.permission().await?;
                bridge.address(place, true).await
            }
            found => found,
        }
    }

    async fn place(&self, id: &str) -> Result<PanelWorkspace, Value> {
        let place = self.shared.place(id).await.ok_or_else(|| {
            let message = "the daemon of this workspace no longer runs";
            error(
                &Error::new(Code::DaemonNotRunning, message)
                    .recommend("start it with `subagent daemon start` there"),
            )
        })?;
        if place.host.is_some() {
            // The daemon there does not know who asks.
            self.permission().await?;
        }
        Ok(place)
    }

    fn stream<F: Future<Output = ()> + Send + 'static>(
        &self,
        visit: crate::access::presence::Visit,
        feed: impl FnOnce(live::PageSender) -> F,
    ) -> Result<Response<ReplyBody>, Value> {
        let seat = Arc::clone(&self.shared.streams).try_acquire_owned();
        let seat = seat.map_err(|_| error(&busy("too many streams are open; close a page")))?;
        let (out, lines) = mpsc::channel(MAX_WAITING_LINES);
        tokio::spawn(feed(out));
        let body = ReplyBody::Lines { lines, _visit: visit, _seat: seat };
        let mut response = Response::new(body);
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/x-ndjson"));
        Ok(response)
    }
}

/// Asks a daemon of this machine whether the processes may act as an owner. Silence counts as permission, as that
/// of a daemon that does not run: the ancestors of the processes decide.
async fn judge(bridge: Arc<dyn Bridge>, place: PanelWorkspace, behalf: Arc<str>) -> Result<(), Value> {
    let judged = async {
        let Ok(address) = bridge.address(&place, false).await else { return Ok(()) };
        let ask = DaemonRequest { method: Method::POST, ..DaemonRequest::get(PERMISSION, &behalf) };
        ask.send(&address).await.map(drop)
    };
    match timeout(JUDGMENT_LIMIT, judged).await {
        Ok(Err(refused)) if code_of(&refused) != "DAEMON_NOT_RUNNING" => Err(refused),
        _ => Ok(()),
    }
}

fn unauthorized(why: &str) -> Error {
    Error::new(Code::Unauthorized, why)
        .recommend("press Enter in the terminal of `subagent panel` for a new link")
}

/// The secret that a request shows; empty without one.
pub(crate) fn bearer(headers: &HeaderMap) -> &str {
    let given = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    given.and_then(|value| value.strip_prefix("Bearer ")).unwrap_or_default()
}

pub(crate) fn read_only() -> Error {
    Error::new(Code::ReadOnly, "this panel only shows; nothing was done")
        .recommend("start `subagent panel` without --read-only")
}

pub(crate) fn busy(why: &str) -> Error {
    Error::new(Code::TooManyRequests, why).retryable()
}

/// The object in a body; nothing counts as an empty one.
fn object(bytes: &[u8]) -> Result<Map<String, Value>, Value> {
    if bytes.is_empty() {
        return Ok(Map::new());
    }
    serde_json::from_slice(bytes).map_err(|problem| {
        error(&Error::new(Code::InvalidInput, format!("the body is not a JSON object: {problem}")))
    })
}

/// The value of a key of a query; only what an id may have.
fn value_of(query: &str, key: &str) -> Option<String> {
    let value = query.split('&').find_map(|pair| pair.strip_prefix(key)?.strip_prefix('='))?;
    let is_id = !value.is_empty() && value.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    is_id.then(|| value.to_owned())
}

/// The patches of `worker.diff` as lines.
fn diff(mut found: Value) -> Value {
    for file in found["files"].as_array_mut().into_iter().flatten() {
        let patch = patch::lines(file["patch"].as_str().unwrap_or_default());
        file["patch"] = json!(patch);
    }
    found
}

/// Without what acts on a terminal or turns and hides text, in all texts.
fn cleaned(mut value: Value) -> Value {
    match &mut value {
        Value::String(text) => {
            if let std::borrow::Cow::Owned(clean) = clean(text) {
                *text = clean;
            }
            value
        }
        Value::Array(items) => items.drain(..).map(cleaned).collect(),
        Value::Object(map) => {
            std::mem::take(map).into_iter().map(|(key, value)| (key, cleaned(value))).collect()
        }
        _ => value,
    }
}

fn whole(kind: &'static str, bytes: Bytes) -> Response<ReplyBody> {
    let mut response = Response::new(ReplyBody::Whole(Some(bytes)));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

fn json_response(status: StatusCode, value: &Value) -> Response<ReplyBody> {
    let mut response = whole("application/json", value.to_string().into());
    *response.status_mut() = status;
    response
}

/// An error as an answer. What was not let in gets no second request on its connection.
fn refusal(problem: &Value) -> Response<ReplyBody> {
    let code = code_of(problem);
    let status = match code {
        "UNAUTHORIZED" => StatusCode::UNAUTHORIZED,
        "FORBIDDEN_ORIGIN" | "FORBIDDEN_FROM_WORKER" | "READ_ONLY" => StatusCode::FORBIDDEN,
        "PAYLOAD_TOO_LARGE" => StatusCode::PAYLOAD_TOO_LARGE,
        "TOO_MANY_REQUESTS" => StatusCode::TOO_MANY_REQUESTS,
        "DAEMON_NOT_RUNNING" => StatusCode::SERVICE_UNAVAILABLE,
        code if code.ends_with("_NOT_FOUND") => StatusCode::NOT_FOUND,
        _ => StatusCode::BAD_REQUEST,
    };
    let mut response = json_response(status, &json!({"ok": false, "error": problem}));
    if matches!(code, "UNAUTHORIZED" | "FORBIDDEN_ORIGIN" | "FORBIDDEN_FROM_WORKER" | "PAYLOAD_TOO_LARGE") {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    if status == StatusCode::TOO_MANY_REQUESTS {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("60"));
    }
    response
}
