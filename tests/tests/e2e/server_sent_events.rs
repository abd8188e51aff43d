//! Events for browsers: the streams of the API as `text/event-stream`.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use serde_json::Value;
use subagent_tests::harness::{TestSandbox, wait_until};

const LIMIT: Duration = Duration::from_secs(60);

/// An open event stream.
struct SseStream(BufReader<UnixStream>);

/// One frame of a stream.
#[derive(Debug)]
struct Frame {
    id: Option<String>,
    event: Option<String>,
    data: Value,
}

impl SseStream {
    /// Opens it at the running daemon, once that answers.
    fn open(sandbox: &TestSandbox, path: &str, last: Option<&str>) -> (String, Self) {
        wait_until("an open stream", LIMIT, || {
            let mut socket = UnixStream::connect(sandbox.daemon_info()?.socket).ok()?;
            socket.set_read_timeout(Some(LIMIT)).unwrap();
            let last = last.map(|last| format!("Last-Event-ID: {last}\r\n")).unwrap_or_default();
            // With HTTP/1.0 the body is unencoded and ends with the connection.
            let request =
                format!("GET {path} HTTP/1.0\r\nHost: localhost\r\nAccept: text/event-stream\r\n{last}\r\n");
            socket.write_all(request.as_bytes()).ok()?;
            let mut reader = BufReader::new(socket);
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") {
                (reader.read_line(&mut head).ok()? > 0).then_some(())?;
            }
            Some((head.to_lowercase(), Self(reader)))
        })
    }

    /// Returns the next frame; `None` at the end of the connection. Skips comments.
    fn next(&mut self) -> Option<Frame> {
        let mut frame = Frame { id: None, event: None, data: Value::Null };
        loop {
            let mut line = String::new();
            if self.0.read_line(&mut line).ok()? == 0 {
                return None;
            }
            let line = line.trim_end_matches('\n');
            match line.split_once(": ") {
                Some(("id", id)) => frame.id = Some(id.to_owned()),
                Some(("event", event)) => frame.event = Some(event.to_owned()),
                Some(("data", data)) => frame.data = serde_json::from_str(data).ok()?,
                _ if line.is_empty() && frame.event.is_some() => return Some(frame),
                _ => assert!(line.is_empty() || line.starts_with(':'), "{line:?}"),
            }
        }
    }
}

#[test]
fn a_stream_has_the_events_as_frames_and_goes_on() {
    let sandbox = TestSandbox::new();
    sandbox.init();
    let worker = sandbox.start("demo");
    let _ = sandbox.send(&worker, "one");
    let expected = sandbox.events(&worker);
    let (head, mut stream) = SseStream::open(&sandbox, &format!("/v1/workers/{worker}/events"), None);
    assert!(head.contains(" 200 ") && head.contains("content-type: text/event-stream"), "{head}");
    assert!(head.contains("cache-control: no-store"), "{head}");
    for event in &expected {
        let frame = stream.next().unwrap();
        assert_eq!(
            (frame.id.as_deref(), frame.event.as_deref()),
            (event["eventId"].as_str(), event["type"].as_str())
        );
        assert_eq!(frame.data["eventId"], event["eventId"], "{frame:?}");
    }
    let _ = sandbox.send(&worker, "two");
    let newest = stream.next().unwrap();
    assert_eq!(newest.event.as_deref(), Some("turn.started"), "{newest:?}");
    let (_, mut rest) = SseStream::open(&sandbox, "/v1/events?from=ev_0", newest.id.as_deref());
    let next = rest.next().unwrap();
    assert!(next.id > newest.id, "Last-Event-ID counts before from: {next:?}");
    let (head, _) = SseStream::open(&sandbox, "/v1/events", Some("nonsense"));
    assert!(head.contains(" 404 "), "{head}");
    sandbox.finish();
}

#[test]
fn a_silent_stream_has_a_comment() {
    let sandbox = TestSandbox::new();
    sandbox.init();
    let (_, SseStream(mut lines)) = SseStream::open(&sandbox, "/v1/events", None);
    let mut line = String::new();
    lines.read_line(&mut line).unwrap();
    assert_eq!(line, ":\n", "after 15 s");
    sandbox.finish();
}

#[test]
fn a_client_that_connects_again_misses_nothing_and_hears_nothing_twice_while_daemons_die() {
    let sandbox = TestSandbox::new();
    sandbox.init();
    let worker = sandbox.start("demo");
    let (mut heard, mut last): (Vec<String>, Option<String>) = (Vec::new(), None);
    let begun = Instant::now();
    for round in 0..20 {
        let (_, mut stream) = SseStream::open(&sandbox, "/v1/events", last.as_deref());
        let _ = sandbox.send_no_wait(&worker, &format!("!chunks 20\nround {round}"));
        // The daemon dies at some point of the turn.
        for _ in 0..round % 7 + 1 {
            let Some(frame) = stream.next() else { break };
            heard.extend(frame.id.clone());
            last = frame.id.or(last);
        }
        sandbox.kill_daemon();
        while let Some(frame) = stream.next() {
            // The end of a stream that a daemon ends has no cursor.
            heard.extend(frame.id.clone());
            last = frame.id.or(last);
        }
        let ended = |event: &Value| event["type"] == "turn.completed";
        wait_until("the end of the turn", LIMIT, || {
            (sandbox.events(&worker).iter().filter(|event| ended(event)).count() == round + 1).then_some(())
        });
    }
    let (_, mut stream) = SseStream::open(&sandbox, "/v1/events", last.as_deref());
    let all: Vec<String> =
        sandbox.events(&worker).iter().map(|event| event["eventId"].as_str().unwrap().to_owned()).collect();
    while heard.last() != all.last() {
        heard.extend(stream.next().expect("the rest").id);
    }
    assert_eq!(heard, all, "{:?}", begun.elapsed());
    sandbox.finish();
}
