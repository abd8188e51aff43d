//! One HTTP request on the daemon's socket, written by hand: what any other client may send.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

/// For the whole answer.
const DEADLINE: Duration = Duration::from_secs(30);

/// An answer.
#[derive(Debug, Clone)]
pub struct Response {
    /// The status.
    pub status: u16,
    /// The head, in lower case.
    pub head: String,
    /// The body, joined if it came in chunks.
    pub body: String,
}

impl Response {
    /// The body as JSON.
    ///
    /// # Panics
    /// When it is none.
    #[must_use]
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// Sends one request and reads the answer to its end. `head` is what stands before the empty line, without
/// `Host`, `Content-Length` and `Connection`.
///
/// # Panics
/// When the daemon cannot be asked, or does not answer with HTTP.
#[track_caller]
pub fn request(socket: &Path, head: &[&str], body: &str) -> Response {
    let mut stream = UnixStream::connect(socket).unwrap();
    let text = exchange(&mut stream, head, body);
    parse(&text).unwrap_or_else(|| panic!("no HTTP: {text}"))
}

/// As [`request`]; `None` if no whole answer came in time.
#[must_use]
pub fn answer(socket: &Path, head: &[&str], body: &str) -> Option<Response> {
    let mut stream = UnixStream::connect(socket).ok()?;
    parse(&exchange(&mut stream, head, body))
}

/// As [`request`] of a daemon that may be killed meanwhile: `None` if there was none, or no whole answer came.
#[must_use]
pub fn try_request(socket: &Path, head: &[&str], body: &str) -> Option<Response> {
    let response = answer(socket, head, body)?;
    serde_json::from_str::<Value>(&response.body).is_ok().then_some(response)
}

fn exchange(stream: &mut UnixStream, head: &[&str], body: &str) -> String {
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    let head = head.join("\r\n");
    let length = body.len();
    let request =
        format!("{head}\r\nHost: localhost\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}");
    // It may answer, and close, before it has read everything: what counts is the answer.
    let _ = stream.write_all(request.as_bytes());
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

fn parse(text: &str) -> Option<Response> {
    let (head, body) = text.split_once("\r\n\r\n")?;
    let head = head.to_lowercase();
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let body = if head.contains("transfer-encoding: chunked") { joined(body)? } else { body.to_owned() };
    Some(Response { status, head, body })
}

/// The text of chunks that came to their end.
fn joined(mut chunks: &str) -> Option<String> {
    let mut body = String::new();
    loop {
        let (size, rest) = chunks.split_once("\r\n")?;
        let size = usize::from_str_radix(size.trim(), 16).ok()?;
        if size == 0 {
            return Some(body);
        }
        body.push_str(rest.get(..size)?);
        chunks = rest.get(size + 2..)?;
    }
}
