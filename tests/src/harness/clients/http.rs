//! One HTTP request on the daemon's socket, written by hand like that of any other client.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

/// Time limit for the whole response.
const DEADLINE: Duration = Duration::from_secs(30);

/// The response of the daemon.
#[derive(Debug, Clone)]
pub struct Response {
    /// The HTTP status code.
    pub status: u16,
    /// The head, in lower case.
    pub head: String,
    /// The body, joined if it arrived in chunks.
    pub body: String,
}

impl Response {
    /// Parses the body as JSON.
    ///
    /// # Panics
    ///
    /// If it is not JSON.
    #[must_use]
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// Sends one request and reads the whole response. `head` is the text before the empty line,
/// without `Host`, `Content-Length` and `Connection`.
///
/// # Panics
///
/// If the daemon cannot be reached or does not answer with HTTP.
#[track_caller]
pub fn request(socket: &Path, head: &[&str], body: &str) -> Response {
    let mut stream = UnixStream::connect(socket).unwrap();
    let text = exchange(&mut stream, head, body);
    parse(&text).unwrap_or_else(|| panic!("no HTTP: {text}"))
}

/// Like [`request`]; `None` if no complete response arrived in time.
#[must_use]
pub fn answer(socket: &Path, head: &[&str], body: &str) -> Option<Response> {
    let mut stream = UnixStream::connect(socket).ok()?;
    parse(&exchange(&mut stream, head, body))
}

/// Like [`request`] for a daemon that may be killed meanwhile: `None` without a daemon
/// or a complete response.
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
    // The daemon may respond and close before it has read everything; the response counts.
    let _ = stream.write_all(request.as_bytes());
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

/// An answer that was read to its end; `None` if it is not whole.
#[must_use]
pub fn parse(text: &str) -> Option<Response> {
    let (head, body) = text.split_once("\r\n\r\n")?;
    let head = head.to_lowercase();
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let body = if head.contains("transfer-encoding: chunked") { joined(body)? } else { body.to_owned() };
    Some(Response { status, head, body })
}

/// Joins the text of chunks, if they are complete.
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
