//! `subagent panel` from the outside: requests by hand, as a browser, a hostile page or an agent may send them.

mod all_hosts;
mod browser;
mod doors;
mod hostile;
mod limits;
mod pages;
mod screens;
mod webhooks;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use subagent_tests::harness::{Response, Running, TestSandbox, parse};

const LIMIT: Duration = Duration::from_secs(60);

/// A panel that runs, and its link.
struct Panel {
    running: Running,
    port: u16,
    token: String,
}

/// A page that was let in.
#[derive(Clone)]
struct Page {
    port: u16,
    session: String,
}

impl Panel {
    fn start(sandbox: &TestSandbox, flags: &[&str]) -> Self {
        let running = sandbox.command("subagent").args(["panel"]).args(flags).spawn();
        let link = running.wait_line("the link", |line| line.starts_with("http://").then(|| line.to_owned()));
        let (address, token) = link.split_once("/#t=").unwrap();
        let port = address.strip_prefix("http://127.0.0.1:").unwrap().parse().unwrap();
        assert_eq!(token.len(), 43, "256 bits: {link}");
        Self { port, token: token.to_owned(), running }
    }

    fn link(&self) -> String {
        format!("http://127.0.0.1:{}/#t={}", self.port, self.token)
    }

    /// The code that `--pair` has printed.
    fn code(&self) -> String {
        self.running.wait_line("the code", |line| {
            let (_, code) = line.strip_prefix("Code for")?.split_once("/: ")?;
            code.split(' ').next().map(str::to_owned)
        })
    }

    fn enter(&self) -> Page {
        let response = post(self.port, "/api/session", &[], &json!({"token": self.token}));
        assert_eq!(response.status, 200, "{response:?}");
        let session = response.json()["data"]["session"].as_str().unwrap().to_owned();
        Page { port: self.port, session }
    }
}

impl Page {
    fn bearer(&self) -> String {
        format!("Authorization: Bearer {}", self.session)
    }

    #[track_caller]
    fn get(&self, path: &str) -> Value {
        let response = get(self.port, path, &[&self.bearer()]);
        assert_eq!(response.status, 200, "{path}: {response:?}");
        response.json()["data"].take()
    }

    fn post(&self, path: &str, body: &Value) -> Response {
        post(self.port, path, &[&self.bearer()], body)
    }

    /// A stream of this page.
    fn stream(&self, path: &str) -> PageStream {
        let mut socket = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        socket.set_read_timeout(Some(LIMIT)).unwrap();
        // A body of HTTP/1.0 is as it is, up to the end of the connection.
        let request =
            format!("GET {path} HTTP/1.0\r\nHost: 127.0.0.1:{}\r\n{}\r\n\r\n", self.port, self.bearer());
        socket.write_all(request.as_bytes()).unwrap();
        let mut reader = BufReader::new(socket);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert!(reader.read_line(&mut head).unwrap() > 0, "{head}");
        }
        assert!(head.contains("200 OK"), "{head}");
        PageStream(reader)
    }

    /// The place of the sandbox's workspace.
    fn place(&self) -> String {
        let place = |line: &Value| (line["own"] == true).then(|| line["place"].as_str().unwrap().to_owned());
        self.stream("/api/live").find("the own workspace", place)
    }
}

/// Lines of JSON that come one after the other.
struct PageStream(BufReader<TcpStream>);

impl PageStream {
    /// The next line that is accepted.
    #[track_caller]
    fn find<T>(&mut self, what: &str, mut accept: impl FnMut(&Value) -> Option<T>) -> T {
        let (mut seen, begun) = (Vec::new(), Instant::now());
        loop {
            let mut line = String::new();
            let read = self.0.read_line(&mut line);
            // Lines of other kinds may come for ever.
            let is_in_time = begun.elapsed() < LIMIT;
            assert!(is_in_time && matches!(read, Ok(1..)), "no {what} ({read:?}) in {seen:#?}");
            if line.trim().is_empty() {
                continue;
            }
            let value: Value = serde_json::from_str(&line).unwrap();
            if let Some(found) = accept(&value) {
                return found;
            }
            seen.push(value);
        }
    }
}

/// Sends these bytes, and reads the answer to its end; `None` if the connection was closed without one.
fn raw(port: u16, text: &str) -> Option<Response> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    let _ = stream.write_all(text.as_bytes());
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    parse(&String::from_utf8_lossy(&bytes))
}

/// A request with exactly these headers.
#[track_caller]
fn request(port: u16, line: &str, headers: &[&str], body: &str) -> Response {
    let headers: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
    let length = if body.is_empty() { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
    let text = format!("{line} HTTP/1.1\r\n{headers}{length}Connection: close\r\n\r\n{body}");
    raw(port, &text).unwrap_or_else(|| panic!("no answer to {text}"))
}

#[track_caller]
fn get(port: u16, path: &str, headers: &[&str]) -> Response {
    let host = format!("Host: 127.0.0.1:{port}");
    request(port, &format!("GET {path}"), &[&[host.as_str()], headers].concat(), "")
}

#[track_caller]
fn post(port: u16, path: &str, headers: &[&str], body: &Value) -> Response {
    let (host, origin) = (format!("Host: 127.0.0.1:{port}"), format!("Origin: http://127.0.0.1:{port}"));
    let usual = [host.as_str(), &origin, "Sec-Fetch-Site: same-origin", "Content-Type: application/json"];
    request(port, &format!("POST {path}"), &[&usual, headers].concat(), &body.to_string())
}

/// The code of a refusal.
fn error(response: &Response) -> String {
    response.json()["error"]["code"].as_str().unwrap_or("none").to_owned()
}
