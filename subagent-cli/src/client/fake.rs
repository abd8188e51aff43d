//! A fake daemon for tests: it listens at the socket of its `daemon.json` and follows a script.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinHandle;

#[derive(Debug)]
pub(crate) enum Act {
    /// Respond with this status and body.
    Answer(u16, Value),
    /// Stream these pieces, then end properly (`true`) or break off.
    Stream(Vec<&'static str>, bool),
    Close,
    /// Keep the connection open and send nothing.
    Hang,
    /// Close without a response and remove `daemon.json`.
    Die,
    /// Report that the daemon is stopping, and announce generation 2.
    Leave,
}

/// A request as received.
#[derive(Debug, Clone)]
pub(crate) struct FakeDaemonRequest {
    /// Method and path of the request line.
    pub(crate) line: String,
    /// The head as text, in lower case.
    pub(crate) head: String,
    /// The body; null if it is missing.
    pub(crate) body: Value,
}

impl FakeDaemonRequest {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }
}

/// Decides the reaction to each request.
type FakeDaemonHandler = Box<dyn FnMut(&FakeDaemonRequest) -> Act + Send>;

/// The fake daemon; dropping it stops it.
pub(crate) struct Fake {
    pub(crate) dir: tempfile::TempDir,
    seen: Arc<Mutex<Vec<FakeDaemonRequest>>>,
    task: JoinHandle<()>,
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Fake {
    /// Starts with one reaction per request; then it closes every connection.
    pub(crate) fn new(acts: Vec<Act>) -> Self {
        let mut acts = VecDeque::from(acts);
        Self::playing(move |_| acts.pop_front().unwrap_or(Act::Close))
    }

    /// Starts with a script.
    pub(crate) fn playing(script: impl FnMut(&FakeDaemonRequest) -> Act + Send + 'static) -> Self {
        let script: FakeDaemonHandler = Box::new(script);
        let dir = tempfile::tempdir().unwrap();
        write_info(dir.path(), 1);
        let listener = UnixListener::bind(dir.path().join("s.sock")).unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (place, notes, script) = (dir.path().to_owned(), seen.clone(), Arc::new(Mutex::new(script)));
        let task = tokio::spawn(async move {
            loop {
                let Ok((stream, _)) = listener.accept().await else { return };
                tokio::spawn(serve(stream, place.clone(), script.clone(), notes.clone()));
            }
        });
        Self { dir, seen, task }
    }

    /// Whether it removed its `daemon.json`.
    pub(crate) fn is_away(&self) -> bool {
        !self.dir.path().join("daemon.json").exists()
    }

    /// Announces the daemon's generation 2.
    pub(crate) fn come_back(&self) {
        write_info(self.dir.path(), 2);
    }

    pub(crate) fn seen(&self) -> Vec<FakeDaemonRequest> {
        self.seen.lock().unwrap().clone()
    }
}

fn write_info(dir: &Path, generation: u64) {
    let info = json!({
        "protocol": 1, "oldestProtocol": 1, "version": "1", "process": {"pid": 4242, "startTime": 1},
        "generation": generation, "socket": dir.join("s.sock"), "stateDir": dir, "mode": "background",
        "startedAt": "2026-11-21T20:29:42+00:00",
    });
    let new = dir.join("new");
    std::fs::write(&new, info.to_string()).unwrap();
    std::fs::rename(new, dir.join("daemon.json")).unwrap();
}

async fn serve(
    mut stream: UnixStream,
    dir: std::path::PathBuf,
    script: Arc<Mutex<FakeDaemonHandler>>,
    notes: Arc<Mutex<Vec<FakeDaemonRequest>>>,
) {
    while let Some(seen) = request(&mut stream).await {
        let act = (script.lock().unwrap())(&seen);
        notes.lock().unwrap().push(seen);
        match act {
            Act::Answer(status, body) => answer(&mut stream, status, &body).await,
            Act::Stream(pieces, well) => {
                let leaves = pieces.iter().any(|piece| piece.contains("DAEMON_NOT_RUNNING"));
                let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
                stream.write_all(head.as_bytes()).await.unwrap();
                for piece in pieces {
                    let chunk = format!("{:x}\r\n{piece}\r\n", piece.len());
                    stream.write_all(chunk.as_bytes()).await.unwrap();
                }
                if !well {
                    return;
                }
                stream.write_all(b"0\r\n\r\n").await.unwrap();
                if leaves {
                    tokio::task::yield_now().await;
                    write_info(&dir, 2);
                }
            }
            Act::Close => return,
            Act::Die => return std::fs::remove_file(dir.join("daemon.json")).unwrap(),
            Act::Hang => std::future::pending().await,
            Act::Leave => {
                let error = json!({"code": "DAEMON_NOT_RUNNING", "message": "ending", "retryable": true});
                answer(&mut stream, 503, &json!({"ok": false, "error": error})).await;
                tokio::task::yield_now().await;
                write_info(&dir, 2);
            }
        }
    }
}

async fn answer(stream: &mut UnixStream, status: u16, body: &Value) {
    let body = body.to_string();
    let text = format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    stream.write_all(text.as_bytes()).await.unwrap();
}

async fn request(stream: &mut UnixStream) -> Option<FakeDaemonRequest> {
    let mut bytes = Vec::new();
    loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
            let line = head.lines().next().unwrap().trim_end_matches(" HTTP/1.1").to_owned();
            let mut seen = FakeDaemonRequest {
                line,
                head: head.to_lowercase().replace("\r\n", "\n"),
                body: Value::Null,
            };
            let length: usize = seen.header("content-length").map_or(0, |text| text.parse().unwrap());
            let body = &bytes[end + 4..];
            if body.len() >= length {
                seen.body = serde_json::from_slice(body).unwrap_or_default();
                return Some(seen);
            }
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
}
