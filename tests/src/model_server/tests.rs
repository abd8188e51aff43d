//! The server as an HTTP client sees it. Tests of the real agents are in `tests/real_agents/`.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};

use super::{Asked, ModelServer};

const DEADLINE: Duration = Duration::from_secs(20);
const STREAM: &str = "/v1beta/models/m:streamGenerateContent?alt=sse";

/// Sends a request and returns the stream of its response.
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

/// Returns the whole response, including the head.
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

/// Returns the events of a stream.
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
    assert_eq!(
        *call,
        json!({"name": "run_shell_command", "args": {"command": "ls", "description": "A command"}})
    );

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
fn a_question_for_json_is_answered_by_its_schema_for_any_text() {
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
    // Accepts the end of the connection, clean or not, but not a read timeout.
    let mut rest = Vec::new();
    if let Err(error) = open.read_to_end(&mut rest) {
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    }
    assert!(!String::from_utf8_lossy(&rest).contains("opened"));
    assert!(TcpStream::connect(address).is_err());
}

/// One wire format: its path, its encoding of user texts and tool results, and the location of
/// texts and calls in its events.
struct Format {
    path: &'static str,
    user: fn(&str) -> Value,
    result: fn(&str) -> Value,
    text: &'static str,
    called: &'static str,
    last: &'static str,
}

const FORMATS: [Format; 3] = [
    Format {
        path: "/v1/messages",
        user: |text| {
            let reminder = json!({"type": "text", "text": "<system-reminder>none</system-reminder>"});
            let content = json!([{"type": "text", "text": text}, reminder]);
            json!({"stream": true, "tools": [{"name": "Bash"}, {"name": "mcp__echo__echo"}],
                "messages": [{"role": "user", "content": content}]})
        },
        result: |text| {
            let content = json!([{"type": "tool_result", "content": [{"type": "text", "text": text}]}]);
            json!({"stream": true, "tools": [{"name": "Bash"}], "messages": [{"role": "user", "content": content}]})
        },
        text: "/delta/text",
        called: "/content_block/name",
        last: "message_stop",
    },
    Format {
        path: "/v1/chat/completions",
        user: |text| {
            let tools =
                ["bash", "echo_echo"].map(|name| json!({"type": "function", "function": {"name": name}}));
            json!({"stream": true, "tools": tools, "messages": [
                {"role": "system", "content": "SAY: no"}, {"role": "user", "content": text}]})
        },
        result: |text| {
            let tools = json!([{"type": "function", "function": {"name": "bash"}}]);
            json!({"stream": true, "tools": tools, "messages": [
                {"role": "user", "content": "RUN: a"}, {"role": "tool", "tool_call_id": "c", "content": text}]})
        },
        text: "/choices/0/delta/content",
        called: "/choices/0/delta/tool_calls/0/function/name",
        last: "[DONE]",
    },
    Format {
        path: "/v1/responses",
        user: |text| {
            let content = json!([{"type": "input_text", "text": text}]);
            json!({"stream": true, "tools": [{"type": "function", "name": "exec_command"}, {"type": "tool_search"}],
                "input": [{"type": "message", "role": "user", "content": content}]})
        },
        result: |text| {
            json!({"stream": true, "tools": [{"type": "function", "name": "exec_command"}], "input": [
                {"type": "message", "role": "user", "content": "RUN: a"},
                {"type": "function_call_output", "call_id": "c", "output": text}]})
        },
        text: "/delta",
        called: "/item/name",
        last: "response.completed",
    },
];

impl Format {
    fn answer(&self, body: &Value) -> String {
        answer(&ModelServer::start().unwrap(), self.path, &body.to_string())
    }

    /// Returns all texts at a location of the events.
    fn found(&self, answer: &str, place: &str) -> Vec<String> {
        let data = answer.lines().filter_map(|line| line.strip_prefix("data: "));
        let events = data.filter_map(|data| serde_json::from_str::<Value>(data).ok());
        events.filter_map(|event| Some(event.pointer(place)?.as_str()?.to_owned())).collect()
    }
}

#[test]
fn every_format_streams_a_text_and_ends() {
    for format in FORMATS {
        let answer = format.answer(&(format.user)("SAY: grüß dich"));
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{}: {answer}", format.path);
        assert_eq!(format.found(&answer, format.text).concat(), "grüß dich", "{}", format.path);
        assert!(answer.contains(format.last), "{answer}");
        let answer = format.answer(&(format.result)("a b"));
        assert_eq!(format.found(&answer, format.text).concat(), "DONE: a b", "{}", format.path);
    }
}

#[test]
fn every_format_calls_the_tools_that_it_is_offered() {
    for format in FORMATS {
        let answer = format.answer(&(format.user)("RUN: ls"));
        let called = format.found(&answer, format.called);
        assert!(["Bash", "bash", "exec_command"].contains(&called[0].as_str()), "{}: {answer}", format.path);
        let answer = format.answer(&(format.user)(r#"MCP: echo/echo {"text":"a"}"#));
        assert!(format.found(&answer, format.called)[0].ends_with("echo"), "{}: {answer}", format.path);
        let answer = format.answer(&(format.user)("WRITE: a=b"));
        assert!(format.found(&answer, format.text).concat().contains("no tool"), "{}: {answer}", format.path);
    }
}

#[test]
fn every_format_fails_and_breaks_off_when_the_script_says_so() {
    for format in FORMATS {
        let answer = format.answer(&(format.user)("FAIL: 429"));
        assert!(answer.starts_with("HTTP/1.1 429"), "{}: {answer}", format.path);
        assert!(!answer.contains("retry-after"), "{}: {answer}", format.path);
        let answer = format.answer(&(format.user)("FAIL: 429 60"));
        assert!(answer.contains("retry-after: 60\r\n"), "{}: {answer}", format.path);
        let server = ModelServer::start().unwrap();
        let mut got = Vec::new();
        let body = (format.user)("CUT: half").to_string();
        // However the connection ends, the response has no end.
        let _ = ask(&server, format.path, &body).read_to_end(&mut got);
        let got = String::from_utf8_lossy(&got);
        assert!(!got.contains(format.last) && !got.ends_with("0\r\n\r\n"), "{}: {got}", format.path);
    }
}

#[test]
fn what_offers_no_tools_is_no_turn() {
    for format in FORMATS {
        let server = ModelServer::start().unwrap();
        let mut body = (format.user)("RUN: ls");
        body["tools"] = json!([]);
        let answer = answer(&server, format.path, &body.to_string());
        assert_eq!(format.found(&answer, format.text).concat(), "An aside", "{}", format.path);
        assert!(server.prompts().is_empty());
    }
}
