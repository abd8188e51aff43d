//! Limits of the panel, and its end.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::json;
use subagent_tests::harness::{TestSandbox, wait_until};

use super::{LIMIT, Panel, error, get, post, raw, request};

#[test]
fn wrong_links_are_limited_for_all_together() {
    let (sandbox, _) = TestSandbox::with_worker();
    let panel = Panel::start(&sandbox, &[]);
    let page = panel.enter();
    for _ in 0..10 {
        assert_eq!(post(panel.port, "/api/session", &[], &json!({"token": "wrong"})).status, 401);
    }
    let late = post(panel.port, "/api/session", &[], &json!({"token": "wrong"}));
    assert_eq!((late.status, error(&late).as_str()), (429, "TOO_MANY_REQUESTS"));
    assert!(late.head.contains("retry-after: 60"), "{late:?}");
    // Sessions stay valid.
    page.get(&format!("/api/{}/usage", page.place()));
    drop(panel);
    sandbox.finish();
}

#[test]
fn bodies_and_heads_have_limits() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let panel = Panel::start(&sandbox, &[]);
    let page = panel.enter();
    let path = format!("/api/{}/workers/{worker}/turns", page.place());
    let large = page.post(&path, &json!({"text": "x".repeat(1024 * 1024)}));
    assert_eq!((large.status, error(&large).as_str()), (413, "PAYLOAD_TOO_LARGE"));
    let wrong = page.post(&path, &json!([1]));
    assert_eq!((wrong.status, error(&wrong).as_str()), (400, "INVALID_INPUT"));
    let host = format!("Host: 127.0.0.1:{}", panel.port);
    let long = request(panel.port, "GET /", &[&host, &format!("X: {}", "y".repeat(100_000))], "");
    assert_eq!(long.status, 431);
    // A chunked body is counted as it comes.
    let chunk = format!("10000\r\n{}\r\n", "x".repeat(0x10000)).repeat(20);
    let text = format!(
        "POST {path} HTTP/1.1\r\n{host}\r\n{}\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n{chunk}0\r\n\r\n",
        page.bearer()
    );
    assert!(raw(panel.port, &text).is_none_or(|response| response.status == 413));
    assert_eq!(sandbox.show(&worker)["state"], "idle");
    drop(panel);
    sandbox.finish();
}

#[test]
fn connections_of_strangers_make_room_and_pages_stay() {
    let (sandbox, _) = TestSandbox::with_worker();
    let panel = Panel::start(&sandbox, &[]);
    let page = panel.enter();
    let place = page.place();
    let mut live = page.stream("/api/live");
    live.find("its first line", |line| line["all"].as_bool());
    // They say nothing, or begin a head and never end it.
    let crowd: Vec<TcpStream> = (0..200)
        .map(|at| {
            let mut stream = TcpStream::connect(("127.0.0.1", panel.port)).unwrap();
            if at % 2 == 0 {
                stream.write_all(b"GET / HTTP/1.1\r\nHost: 127.0.0.1:").unwrap();
            }
            stream
        })
        .collect();
    assert_eq!(get(panel.port, "/", &[]).status, 200);
    page.get(&format!("/api/{place}/usage"));
    let mut oldest = &crowd[0];
    oldest.set_read_timeout(Some(LIMIT)).unwrap();
    assert_eq!(oldest.read(&mut [0; 64]).unwrap_or(0), 0, "the oldest was closed");
    let worker = sandbox.start("demo");
    live.find("the new worker", |line| line.to_string().contains(&worker).then_some(()));
    drop(crowd);
    drop(panel);
    sandbox.finish();
}

#[test]
fn pieces_of_text_change_a_row_once_a_second() {
    let mut sandbox = TestSandbox::new();
    let agent = sandbox.test_agent("fast-agent", &[]);
    sandbox.launcher("fast", agent);
    sandbox.init();
    let worker = sandbox.start("fast");
    let panel = Panel::start(&sandbox, &[]);
    let mut live = panel.enter().stream("/api/live");
    live.find("its first line", |line| line["all"].as_bool());
    let _ = sandbox.send_no_wait(&worker, "!pace 20 3");
    let (mut rows, mut times) = (0, 0);
    live.find("the end of the turn", |line| {
        times += usize::from(line["seen"][&worker].is_string());
        let row = line["rows"].as_array()?.iter().find(|row| row["id"] == worker.as_str())?;
        rows += 1;
        (times > 0 && row["state"] == "idle").then_some(())
    });
    assert!((1..=8).contains(&times) && rows <= 8, "60 pieces: {rows} rows, {times} times");
    drop((live, panel));
    sandbox.finish();
}

#[test]
fn streams_have_a_limit() {
    let (sandbox, _) = TestSandbox::with_worker();
    let panel = Panel::start(&sandbox, &[]);
    let page = panel.enter();
    let streams: Vec<_> = (0..32).map(|_| page.stream("/api/live")).collect();
    let late = get(panel.port, "/api/live", &[&page.bearer()]);
    assert_eq!((late.status, error(&late).as_str()), (429, "TOO_MANY_REQUESTS"));
    drop(streams);
    wait_until("room for a stream", LIMIT, || {
        (get_head(panel.port, &page.bearer()).starts_with("HTTP/1.1 200")).then_some(())
    });
    drop(panel);
    sandbox.finish();
}

/// The first bytes of an answer that goes on.
fn get_head(port: u16, bearer: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    write!(stream, "GET /api/live HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n{bearer}\r\n\r\n").unwrap();
    let mut head = [0; 64];
    let length = stream.read(&mut head).unwrap();
    String::from_utf8_lossy(&head[..length]).into_owned()
}

#[test]
fn it_ends_when_no_page_was_open_for_the_idle_time() {
    let (sandbox, _) = TestSandbox::with_worker();
    let mut panel = Panel::start(&sandbox, &["--idle-exit", "5s"]);
    let page = panel.enter();
    let mut live = page.stream("/api/live");
    live.find("its first line", |line| line["all"].as_bool());
    // An open page keeps it; that takes longer than the time.
    let until = std::time::Instant::now() + Duration::from_secs(7);
    wait_until("more than the idle time", LIMIT, || (std::time::Instant::now() > until).then_some(()));
    assert!(panel.running.runs());
    drop(live);
    let output = panel.running.output();
    assert!(output.status.success(), "{output:?}");
    assert!(output.stderr.contains("no page was open"), "{output:?}");
    sandbox.finish();
}

#[test]
fn a_signal_ends_it_at_once_with_pages_open() {
    let (sandbox, _) = TestSandbox::with_worker();
    let panel = Panel::start(&sandbox, &[]);
    let page = panel.enter();
    let mut live = page.stream("/api/live");
    live.find("its first line", |line| line["all"].as_bool());
    panel.running.signal(Signal::SIGINT);
    let output = panel.running.output();
    assert!(!output.status.success());
    sandbox.finish();
}

#[test]
fn a_port_that_is_taken_is_an_error_that_says_so() {
    let (sandbox, _) = TestSandbox::with_worker();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let output = sandbox.command("subagent").args(["panel", "--port", &port]).run();
    assert!(!output.status.success() && output.stderr.contains("--port"), "{output:?}");
    sandbox.finish();
}

#[test]
fn the_link_is_opened_in_the_browser_or_a_note_says_that_there_is_none() {
    let (sandbox, _) = TestSandbox::with_worker();
    let (browser, opened) = (sandbox.file("browser"), sandbox.file("opened"));
    let script = format!("#!/bin/sh\necho \"$1\" > '{0}.new' && mv '{0}.new' '{0}'\n", opened.display());
    fs::write(&browser, script).unwrap();
    fs::set_permissions(&browser, fs::Permissions::from_mode(0o755)).unwrap();
    let command = || sandbox.command("subagent").args(["panel", "--open"]);
    let running = command().env("BROWSER", &browser).spawn();
    let link = running.wait_line("the link", |line| line.starts_with("http://").then(|| line.to_owned()));
    let text = wait_until("the browser", LIMIT, || fs::read_to_string(&opened).ok());
    assert_eq!(text.trim_end(), link);
    assert_eq!(running.stderr(), "");
    let _ = running.kill();
    let running = command().env("BROWSER", "").env("PATH", "/nonexistent").spawn();
    wait_until("the note", LIMIT, || running.stderr().contains("open the link yourself").then_some(()));
    let _ = running.kill();
    sandbox.finish();
}
