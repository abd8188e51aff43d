//! Tests the layers around the routes over a real socket, with test routes instead of the
//! supervisor's.

use std::os::unix::net::UnixStream as StdStream;
use std::path::PathBuf;
use std::time::Duration;

use axum::Json;
use axum::routing::{get, post};
use serde_json::{Value, json};
use subagent_protocol::Code;
use subagent_protocol::api::Envelope;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{oneshot, watch};

use super::request::body::{Body, PathNames, QueryParams};
use super::response::reply::TypedReply;
use super::*;

struct ApiServer {
    dir: tempfile::TempDir,
    connections: Connections,
    replace: tokio::sync::mpsc::Sender<UnixListener>,
    phases: watch::Sender<ShutdownPhase>,
    stops: tokio::sync::mpsc::Receiver<StopRequest>,
    end: oneshot::Sender<()>,
    hanging: Arc<tokio::sync::Notify>,
    serving: tokio::task::JoinHandle<std::io::Result<()>>,
}

#[derive(serde::Deserialize)]
struct Wanted {
    text: String,
}

#[derive(serde::Deserialize)]
struct Number {
    n: u32,
}

impl ApiServer {
    fn start() -> Self {
        let dir = tempfile::tempdir_in("/tmp").unwrap();
        let (listening, replace, connections) =
            Listening::new(UnixListener::bind(dir.path().join("s")).unwrap());
        let (control, stops, phases) = control();
        let stopping = control.clone();
        let hanging = Arc::new(tokio::sync::Notify::new());
        let hangs = hanging.clone();
        let routes = Router::new()
            .route("/v1/echo", post(|Body(body): Body<Wanted>| async move { TypedReply("echo", body.text) }))
            .route(
                "/v1/number",
                get(|QueryParams(params): QueryParams<Number>| async move { TypedReply("number", params.n) }),
            )
            .route("/v1/name/{n}", get(|PathNames(n): PathNames<u32>| async move { TypedReply("name", n) }))
            .route(
                "/v1/hangs",
                get(move || async move {
                    hangs.notify_one();
                    std::future::pending::<Json<Value>>().await
                }),
            )
            .route(
                "/v1/panics",
                get(|| async {
                    let nothing: Option<Json<Value>> = std::hint::black_box(None);
                    nothing.expect("the test wants a panic")
                }),
            )
            .route(
                layers::STOP_PATH,
                post(move || async move {
                    stopping
                        .stop(false)
                        .await
                        .map(|()| TypedReply("stopped", "yes"))
                        .map_err(crate::api::response::reply::ApiError)
                }),
            );
        let info = Arc::new(super::request::checks::tests::daemon());
        let surroundings = layers::Surroundings { control, info };
        let router = layers::around(routes, surroundings).layer(DefaultBodyLimit::max(MAX_LINE_BYTES));
        let (end, ended) = oneshot::channel::<()>();
        let serving = tokio::spawn(serve(listening, router, Arc::new(Vec::new), async move {
            let _ = ended.await;
        }));
        Self { dir, connections, replace, phases, stops, end, hanging, serving }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("s")
    }

    async fn request(&self, text: &str) -> HttpResponse {
        request(self.path(), text.to_owned()).await
    }

    async fn get(&self, target: &str, headers: &str) -> HttpResponse {
        self.request(&format!(
            "GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\r\n"
        ))
        .await
    }

    async fn post(&self, target: &str, body: &str) -> HttpResponse {
        let length = body.len();
        self.request(&format!(
            "POST {target} HTTP/1.1\r\nHost: d\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
        ))
        .await
    }
}

#[derive(Debug)]
struct HttpResponse {
    status: u16,
    head: String,
    body: Envelope<Value>,
}

impl HttpResponse {
    #[track_caller]
    fn fails(&self, status: u16, code: Code) -> &Value {
        let error = self.body.error.as_ref().unwrap();
        assert_eq!((self.status, error.code, self.body.ok), (status, code, false), "{self:?}");
        assert_eq!(self.body.kind, "error");
        assert!(!error.message.is_empty());
        self.has_protocol();
        error.details.get("error").unwrap_or(&Value::Null)
    }

    #[track_caller]
    fn gives(&self, data: Value) {
        assert_eq!((self.status, self.body.data.as_ref()), (200, Some(&data)), "{self:?}");
        self.has_protocol();
    }

    #[track_caller]
    fn has_protocol(&self) {
        let line = format!("subagent-protocol: {}\r\n", subagent_protocol::PROTOCOL);
        assert!(self.head.to_lowercase().contains(&line), "{}", self.head);
    }
}

/// Sends the bytes of one request and reads until the connection closes.
async fn request(path: PathBuf, text: String) -> HttpResponse {
    let exchange = async {
        let mut stream = UnixStream::connect(path).await.unwrap();
        stream.write_all(text.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    };
    let answer = tokio::time::timeout(Duration::from_secs(20), exchange).await.expect("an answer");
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    HttpResponse { status, head: format!("{head}\r\n"), body: serde_json::from_str(body).unwrap() }
}

#[tokio::test]
async fn results_and_errors_are_envelopes() {
    let server = ApiServer::start();
    server.post("/v1/echo", r#"{"text":"hé"}"#).await.gives(json!("hé"));
    server.get("/v1/number?n=7", "").await.gives(json!(7));
    server.get("/v1/name/7", "").await.gives(json!(7));
    assert!(server.post("/v1/echo", "{").await.fails(400, Code::InvalidInput).is_string());
    assert!(server.post("/v1/echo", "").await.fails(400, Code::InvalidInput).is_string());
    assert!(server.post("/v1/echo", r#"{"text":1}"#).await.fails(400, Code::InvalidInput).is_string());
    assert!(server.post("/v1/echo", r#"["text"]"#).await.fails(400, Code::InvalidInput).is_string());
    server.get("/v1/number?n=x", "").await.fails(400, Code::InvalidArgument);
    server.get("/v1/name/x", "").await.fails(400, Code::InvalidArgument);
    server.get("/v1/nothing", "").await.fails(400, Code::InvalidArgument);
    server.get("/", "").await.fails(400, Code::InvalidArgument);
    server.get("/v1/echo", "").await.fails(400, Code::InvalidArgument);
}

#[tokio::test]
async fn checks_come_before_anything_else() {
    let server = ApiServer::start();
    server.get("/v1/number?n=7", "Subagent-Protocol: 1\r\n").await.gives(json!(7));
    server.get("/v1/panics", "Subagent-Protocol: 0\r\n").await.fails(412, Code::DaemonTooNew);
    server.get("/v1/nothing", "Subagent-Protocol: 99\r\n").await.fails(412, Code::DaemonTooOld);
    server.get("/v1/number?n=7", "Origin: http://localhost\r\n").await.fails(403, Code::ForbiddenOrigin);
}

#[tokio::test]
async fn a_body_that_is_too_large_is_refused_before_it_is_read() {
    let server = ApiServer::start();
    let length = MAX_LINE_BYTES + 1;
    let head =
        format!("POST /v1/echo HTTP/1.1\r\nHost: d\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n");
    server.request(&head).await.fails(413, Code::PayloadTooLarge);
}

#[tokio::test]
async fn a_panic_is_one_requests_problem() {
    let server = ApiServer::start();
    server.get("/v1/panics", "").await.fails(500, Code::Internal);
    server.get("/v1/number?n=7", "").await.gives(json!(7));
}

#[tokio::test]
async fn the_end_answers_what_hangs_and_the_stop_request_last() {
    let mut server = ApiServer::start();
    let hangs = tokio::spawn(request(server.path(), "GET /v1/hangs HTTP/1.1\r\nHost: d\r\n\r\n".to_owned()));
    let stops = tokio::spawn(request(
        server.path(),
        "POST /v1/daemon/stop HTTP/1.1\r\nHost: d\r\nContent-Length: 0\r\n\r\n".to_owned(),
    ));
    let stop = server.stops.recv().await.unwrap();
    server.hanging.notified().await;
    assert_eq!(*server.connections.borrow(), 2);
    server.end.send(()).unwrap();
    server.phases.send_replace(ShutdownPhase::EndWaits);
    server.phases.send_replace(ShutdownPhase::EndAll);
    let answer = hangs.await.unwrap();
    answer.fails(503, Code::DaemonNotRunning);
    assert!(answer.body.error.unwrap().retryable);
    stop.done.send(Ok(())).unwrap();
    stops.await.unwrap().gives(json!("yes"));
    server.serving.await.unwrap().unwrap();
    assert_eq!(*server.connections.borrow(), 0);
}

#[tokio::test]
async fn connections_are_counted_and_the_listener_can_be_replaced() {
    let mut server = ApiServer::start();
    let first = StdStream::connect(server.path()).unwrap();
    server.connections.wait_for(|open| *open == 1).await.unwrap();
    std::fs::remove_file(server.path()).unwrap();
    server.replace.send(UnixListener::bind(server.path()).unwrap()).await.unwrap();
    let second = StdStream::connect(server.path()).unwrap();
    server.connections.wait_for(|open| *open == 2).await.unwrap();
    drop((first, second));
    server.connections.wait_for(|open| *open == 0).await.unwrap();
    server.get("/v1/number?n=7", "").await.gives(json!(7));
}
