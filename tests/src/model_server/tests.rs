//! The server as an HTTP client sees it. The real agent is in `tests/model_server.rs`.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};

use super::{Asked, ModelServer};

const DEADLINE: Duration = Duration::from_secs(20);
const STREAM: &str = "/v1beta/models/m:streamGenerateContent?alt=sse";

/// Sends a request; its answer can be read from what is returned.
fn ask(server: &ModelServer, path: &str, body: &str) -> TcpStream {
    let mut connection = TcpStream::connect(server.address).unwrap();
    connection.set_read_timeout(Some(DEADLINE)).unwrap();
    let length = body.len();
    write!(
        connection,
        "POST {path} HTTP/1.1\r\nHost: m\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
    )
    .unwrap();
    connection
}

/// The whole answer, head included.
fn answer(server: &ModelServer, path: &str, body: &str) -> String {
    let mut answer = String::new();
    ask(server, path, body).read_to_string(&mut answer).unwrap();
    answer
}

fn user(text: &str) -> String {
    let contents = json!([{"role": "user", "parts": [{"text": "<context/>"}, {"text": text}]}]);
    let tools = json!([{"functionDeclarations": [{"name": "run_shell_command"}]}]);
    json!({"contents": contents, "tools": tools}).to_string()
}

/// The events of a stream.
fn events(answer: &str) -> Vec<Value> {
    answer
        .lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .map(|data| serde_json::from_str(data).unwrap())
        .collect()
}

fn text(events: &[Value]) -> String {
    events.iter().filter_map(|event| event.pointer("/candidates/0/content/parts/0/text")?.as_str()).collect()
}

#[test]
fn a_text_is_streamed_and_ends_once() {
    let server = ModelServer::start().unwrap();
    let answer = answer(&server, STREAM, &user("SAY: grüß dich"));
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(answer.contains("content-type: text/event-stream"), "{answer}");
    let events = events(&answer);
    assert_eq!(text(&events), "grüß dich");
    let ends = events.iter().filter(|event| event.pointer("/candidates/0/finishReason").is_some()).count();
    assert_eq!((ends, events.len()), (1, 4));
    assert_eq!(server.prompts(), ["SAY: grüß dich"]);
}

#[test]
fn a_command_is_called_and_its_result_reported() {
    let server = ModelServer::start().unwrap();
    let called = events(&answer(&server, STREAM, &user("RUN: ls")));
    let call = called[0].pointer("/candidates/0/content/parts/0/functionCall").unwrap();
    assert_eq!(*call, json!({"name": "run_shell_command", "args": {"command": "ls", "description": "A command"}}));

    let result = json!({"functionResponse": {"name": "run_shell_command", "response": {"output": "a b"}}});
    let history = json!({"contents": [
        {"role": "user", "parts": [{"text": "RUN: ls"}]},
        {"role": "model", "parts": [{"functionCall": call}]},
        {"role": "user", "parts": [result]},
    ]});
    assert_eq!(text(&events(&answer(&server, STREAM, &history.to_string()))), "DONE: a b");
    let asked: Vec<Asked> = server.requests().into_iter().map(|request| request.asked).collect();
    assert_eq!(asked, [Asked::Prompt { text: "RUN: ls".into() }, Asked::ToolResult { output: "a b".into() }]);
}

#[test]
fn a_question_for_json_is_answered_by_its_schema_whatever_the_text_says() {
    let server = ModelServer::start().unwrap();
    let mut body: Value = serde_json::from_str(&user("RUN: ls")).unwrap();
    body["generationConfig"] = json!({
        "responseMimeType": "application/json",
        "responseJsonSchema": {"type": "OBJECT", "required": ["n"], "properties": {"n": {"type": "INTEGER"}}},
    });
    let answer = answer(&server, "/v1beta/models/m:generateContent", &body.to_string());
    assert!(answer.contains(r#"{\"n\":1}"#), "{answer}");
    assert_eq!(server.requests()[0].asked, Asked::Aside);
    assert!(server.prompts().is_empty());
}

#[test]
fn what_it_does_not_know_is_refused_and_recorded() {
    let server = ModelServer::start().unwrap();
    assert!(answer(&server, "/v1/other", "{}").starts_with("HTTP/1.1 404"));
    assert!(answer(&server, "/v1beta/models/m:embedContent", "{}").starts_with("HTTP/1.1 404"));
    assert!(answer(&server, STREAM, "{").starts_with("HTTP/1.1 400"));
    assert!(server.requests().iter().all(|request| request.asked == Asked::Unknown));
    assert_eq!(server.requests().len(), 3);
}

#[test]
fn dropping_it_ends_open_answers_and_closes_the_port() {
    let server = ModelServer::start().unwrap();
    let mut open = ask(&server, STREAM, &user("GATE: /nonexistent/gate"));
    let mut got = Vec::new();
    while !String::from_utf8_lossy(&got).contains("waiting ") {
        let mut buffer = [0; 4096];
        let n = open.read(&mut buffer).unwrap();
        assert!(n > 0, "ended before it was dropped: {}", String::from_utf8_lossy(&got));
        got.extend_from_slice(&buffer[..n]);
    }
    let address = server.address;
    drop(server);
    // The end of the connection, clean or not, but not the read's time-out.
    let mut rest = Vec::new();
    if let Err(error) = open.read_to_end(&mut rest) {
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    }
    assert!(!String::from_utf8_lossy(&rest).contains("opened"));
    assert!(TcpStream::connect(address).is_err());
}
