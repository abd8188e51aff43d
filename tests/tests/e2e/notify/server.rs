//! An HTTPS server that keeps its requests and returns responses chosen by the test.

use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::Value;

const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/tls/");
/// Time limit for a request to arrive.
const SOON: Duration = Duration::from_secs(30);

/// The response to a request.
#[derive(Debug, Clone)]
pub(super) enum WebhookResponse {
    Status(u16),
    /// With `Retry-After`, in seconds.
    Busy(u64),
    /// A redirect to this location.
    Redirect(String),
    /// With 200, after [`SinkServer::let_go`].
    Late,
    /// None; the connection stays open.
    Hang,
    /// The connection is closed.
    Close,
    /// A body without an end.
    Endless,
}

/// A request that arrived.
#[derive(Debug, Clone)]
pub(super) struct SinkRequest {
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: String,
}

impl SinkRequest {
    pub(super) fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(other, _)| other == name).map_or("", |(_, value)| value)
    }

    pub(super) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    /// Asserts that this secret signs the request.
    pub(super) fn is_signed_with(&self, secret: &str) {
        let time: u64 = self.header("webhook-timestamp").parse().unwrap();
        assert!(time > 1_700_000_000, "{self:?}");
        let expected = subagent_webhook::sign(secret, self.header("webhook-id"), time, &self.body).unwrap();
        assert_eq!(self.header("webhook-signature"), expected, "{self:?}");
    }
}

#[derive(Default)]
struct ServerState {
    requests: Mutex<Vec<SinkRequest>>,
    arrived: Condvar,
    /// Responses to the next requests; then 200.
    answers: Mutex<VecDeque<WebhookResponse>>,
    /// Whether late responses are sent now.
    let_go: Mutex<bool>,
    goes: Condvar,
    ending: AtomicBool,
    /// Connections without a response.
    held: Mutex<Vec<Box<dyn Send>>>,
}

pub(super) struct SinkServer {
    shared: Arc<ServerState>,
    port: u16,
    scheme: &'static str,
    thread: Option<JoinHandle<()>>,
}

impl SinkServer {
    /// Starts a server with the certificate of the fixtures.
    pub(super) fn https() -> Self {
        let certificates = CertificateDer::pem_file_iter(format!("{FIXTURES}server.pem")).unwrap();
        let key = PrivateKeyDer::from_pem_file(format!("{FIXTURES}server.key")).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(certificates.map(Result::unwrap).collect(), key)
            .unwrap();
        Self::start(Some(Arc::new(config)))
    }

    /// Starts a server without TLS.
    pub(super) fn http() -> Self {
        Self::start(None)
    }

    fn start(tls: Option<Arc<ServerConfig>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let scheme = if tls.is_some() { "https" } else { "http" };
        let shared = Arc::new(ServerState::default());
        let serving = Arc::clone(&shared);
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if serving.ending.load(Ordering::SeqCst) {
                    return;
                }
                let (stream, tls, serving) = (stream.unwrap(), tls.clone(), Arc::clone(&serving));
                // One thread per connection: one that hangs must not delay the next.
                std::thread::spawn(move || {
                    stream.set_read_timeout(Some(SOON)).unwrap();
                    match tls {
                        None => serve(stream, &serving),
                        Some(config) => {
                            let connection = ServerConnection::new(config).unwrap();
                            serve(StreamOwned::new(connection, stream), &serving);
                        }
                    }
                });
            }
        });
        Self { shared, port, scheme, thread: Some(thread) }
    }

    /// Returns the certificate of the CA.
    pub(super) fn ca() -> String {
        format!("{FIXTURES}ca.pem")
    }

    pub(super) fn url(&self) -> String {
        format!("{}://localhost:{}/hook?token=hush", self.scheme, self.port)
    }

    /// Sets the responses to the next requests, in order.
    pub(super) fn answers(&self, answers: impl IntoIterator<Item = WebhookResponse>) {
        self.shared.answers.lock().unwrap().extend(answers);
    }

    /// Sends the late responses.
    pub(super) fn let_go(&self) {
        *self.shared.let_go.lock().unwrap() = true;
        self.shared.goes.notify_all();
    }

    pub(super) fn requests(&self) -> Vec<SinkRequest> {
        self.shared.requests.lock().unwrap().clone()
    }

    /// Waits until this many requests have arrived.
    pub(super) fn wait_for(&self, count: usize) -> Vec<SinkRequest> {
        let until = Instant::now() + SOON;
        let mut requests = self.shared.requests.lock().unwrap();
        while requests.len() < count {
            let left = until.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "{} of {count} requests arrived: {requests:?}", requests.len());
            requests = self.shared.arrived.wait_timeout(requests, left).unwrap().0;
        }
        requests.clone()
    }
}

impl Drop for SinkServer {
    fn drop(&mut self) {
        self.shared.ending.store(true, Ordering::SeqCst);
        self.shared.held.lock().unwrap().clear();
        // Wakes the thread, which then ends.
        drop(TcpStream::connect(("127.0.0.1", self.port)));
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Reads one request and answers it. A client that disconnects is ignored.
fn serve<S: Read + Write + Send + 'static>(stream: S, shared: &ServerState) {
    let mut stream = BufReader::new(stream);
    let Some(request) = read(&mut stream) else { return };
    let answer = shared.answers.lock().unwrap().pop_front().unwrap_or(WebhookResponse::Status(200));
    shared.requests.lock().unwrap().push(request);
    shared.arrived.notify_all();
    let head = match &answer {
        WebhookResponse::Late => {
            let held = shared.let_go.lock().unwrap();
            drop(shared.goes.wait_timeout_while(held, SOON, |goes| !*goes).unwrap());
            "200 x\r\ncontent-length: 0".to_owned()
        }
        WebhookResponse::Status(status) => format!("{status} x\r\ncontent-length: 0"),
        WebhookResponse::Busy(seconds) => format!("429 x\r\nretry-after: {seconds}\r\ncontent-length: 0"),
        WebhookResponse::Redirect(url) => format!("302 x\r\nlocation: {url}\r\ncontent-length: 0"),
        WebhookResponse::Endless => "200 x\r\ntransfer-encoding: chunked".to_owned(),
        WebhookResponse::Close => return,
        WebhookResponse::Hang => {
            shared.held.lock().unwrap().push(Box::new(stream));
            return;
        }
    };
    let stream = stream.get_mut();
    let mut sent = stream.write_all(format!("HTTP/1.1 {head}\r\n\r\n").as_bytes());
    while sent.is_ok() && matches!(answer, WebhookResponse::Endless) {
        sent = stream.write_all(b"10000\r\n").and_then(|()| stream.write_all(&[b'x'; 0x10000]));
        sent = sent.and_then(|()| stream.write_all(b"\r\n"));
    }
    let _ = stream.flush();
}

fn read(stream: &mut BufReader<impl Read>) -> Option<SinkRequest> {
    let mut line = String::new();
    stream.read_line(&mut line).ok().filter(|length| *length > 0)?;
    let mut headers = Vec::new();
    loop {
        line.clear();
        stream.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        headers.push((name.to_ascii_lowercase(), value.to_owned()));
    }
    let mut request = SinkRequest { headers, body: String::new() };
    let length: u64 = request.header("content-length").parse().unwrap_or(0);
    stream.take(length).read_to_string(&mut request.body).ok()?;
    Some(request)
}
