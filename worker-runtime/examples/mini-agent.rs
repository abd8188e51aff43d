//! A small ACP agent for this crate's own tests. The prompt text selects what it does in a turn.
#![allow(clippy::unwrap_used, clippy::print_stderr, clippy::print_stdout)]

use std::io::{BufRead, StdinLock, Write};
use std::process::Command;

use serde_json::{Value, json};

fn send(message: &Value) {
    let mut line = message.to_string();
    line.push('\n');
    std::io::stdout().write_all(line.as_bytes()).unwrap();
    std::io::stdout().flush().unwrap();
}

fn say(text: &str) {
    let update = json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}});
    send(
        &json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "mini", "update": update}}),
    );
}

fn receive(input: &mut StdinLock<'_>) -> Value {
    let mut line = String::new();
    if input.read_line(&mut line).unwrap() == 0 {
        if std::env::args().any(|arg| arg == "--stay") {
            loop {
                std::thread::park();
            }
        }
        std::process::exit(0);
    }
    serde_json::from_str(&line).unwrap()
}

fn ask(id: u64, method: &str, params: &Value) {
    send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
}

/// Returns the response to request `id`, reduced to its `result` or `error`.
fn answer_to(id: u64, input: &mut StdinLock<'_>) -> Value {
    loop {
        let mut message = receive(input);
        if message["id"] == id && message.get("method").is_none() {
            let answer = message.as_object_mut().unwrap();
            answer.retain(|key, _| key == "result" || key == "error");
            return message;
        }
    }
}

/// Returns the `stopReason`, or `None` for a turn that is never answered.
fn turn(text: &str, input: &mut StdinLock<'_>) -> Option<&'static str> {
    match text.split_once(' ').unwrap_or((text, "")) {
        ("ask", _) => {
            let options = json!([{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]);
            let params = json!({"sessionId": "mini", "toolCall": {"kind": "edit"}, "options": options});
            send(
                &json!({"jsonrpc": "2.0", "id": 0, "method": "session/request_permission", "params": params}),
            );
            let mut stop = "end_turn";
            loop {
                let message = receive(input);
                if message["method"] == "session/cancel" {
                    stop = "cancelled";
                } else if message["id"] == 0 {
                    say(&message["result"]["outcome"].to_string());
                    return Some(stop);
                }
            }
        }
        ("wait", _) => loop {
            if receive(input)["method"] == "session/cancel" {
                say("late");
                return Some("cancelled");
            }
        },
        ("deaf", _) => loop {
            receive(input);
        },
        ("exit", code) => {
            say("last words");
            eprintln!("mini-agent: leaving");
            std::process::exit(code.parse().unwrap());
        }
        ("leave-behind", path) => {
            let script = format!("trap '' TERM HUP; echo $$ >> '{path}'; exec sleep 1000");
            let mut child = Command::new("setsid").args(["sh", "-c", &script]).spawn().unwrap();
            while !std::path::Path::new(path).exists() {
                std::thread::yield_now();
            }
            say(&child.try_wait().unwrap().is_none().to_string());
            Some("end_turn")
        }
        ("flood", count) => {
            (0..count.parse::<u32>().unwrap()).for_each(|number| say(&format!("chunk {number}")));
            Some("end_turn")
        }
        ("noise", _) => {
            std::io::stdout().write_all(b"plain text\n\n\xff\xfe{\n[]\n{\"id\":77,\"result\":1}\n").unwrap();
            send(
                &json!({"jsonrpc": "2.0", "id": "q", "method": "fs/read_text_file", "params": {"path": "/x"}}),
            );
            say(&receive(input)["error"]["code"].to_string());
            Some("end_turn")
        }
        ("script", calls) => {
            for call in serde_json::from_str::<Vec<(String, Value)>>(calls).unwrap() {
                ask(100, &call.0, &call.1);
                say(&answer_to(100, input).to_string());
            }
            Some("end_turn")
        }
        ("withdraw", call) => {
            let (method, params): (String, Value) = serde_json::from_str(call).unwrap();
            ask(100, &method, &params);
            let params = json!({"requestId": 100});
            send(&json!({"jsonrpc": "2.0", "method": "$/cancel_request", "params": params}));
            say(&answer_to(100, input).to_string());
            Some("end_turn")
        }
        // Sends all requests before it reads the first answer.
        ("ask-often", call) => {
            let (count, method, params): (u64, String, Value) = serde_json::from_str(call).unwrap();
            (0..count).for_each(|id| ask(id, &method, &params));
            let answers = (0..count).map(|_| receive(input));
            let good = answers.filter(|answer| answer.get("result").is_some()).count();
            say(&good.to_string());
            Some("end_turn")
        }
        ("knock", path) => {
            let mut daemon = std::os::unix::net::UnixStream::connect(path).unwrap();
            let _ =
                daemon.write_all(b"{\"t\":\"hello\",\"protocol\":1,\"generation\":99,\"desired\":\"run\"}\n");
            let mut answer = String::new();
            std::io::Read::read_to_string(&mut daemon, &mut answer).unwrap();
            say(&answer);
            Some("end_turn")
        }
        ("no-answer", _) => None,
        (_, _) => {
            say("you said: ");
            say(text);
            Some("end_turn")
        }
    }
}

fn main() {
    let has = |flag: &str| std::env::args().any(|arg| arg == flag);
    if has("--no-acp") {
        println!("I am not an agent");
    }
    let mut input = std::io::stdin().lock();
    loop {
        let message = receive(&mut input);
        let answer = |result: Value| send(&json!({"jsonrpc": "2.0", "id": message["id"], "result": result}));
        match message["method"].as_str() {
            _ if has("--no-acp") => {}
            Some("initialize") if has("--no-capabilities") => answer(json!({"serverInfo": {"name": "mini"}})),
            Some("initialize") => answer(json!({
                "protocolVersion": 1, "authMethods": [{"id": "key"}],
                "agentCapabilities": {"loadSession": true, "sessionCapabilities": {"close": {}}},
            })),
            Some("session/new") if has("--needs-auth") => {
                let error = json!({"code": -32000, "message": "Authentication required"});
                send(&json!({"jsonrpc": "2.0", "id": message["id"], "error": error}));
            }
            Some("session/new") => answer(json!({"sessionId": "mini"})),
            Some("session/load") => {
                say("replayed");
                answer(Value::Null);
                say("replayed late");
            }
            Some("session/close") => answer(json!({})),
            Some("session/prompt") => {
                let text = message["params"]["prompt"][0]["text"].as_str().unwrap().to_owned();
                if let Some(stop) = turn(&text, &mut input) {
                    answer(json!({"stopReason": stop}));
                }
            }
            _ => {}
        }
    }
}
