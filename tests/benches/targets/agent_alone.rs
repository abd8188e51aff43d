//! The fast agent by itself: what it costs, and how fast it writes.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Instant;

use serde_json::{Value, json};

use crate::world::{executable, millis};

/// A running fast agent with a session.
struct Alone {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Alone {
    fn start() -> Self {
        let mut child = Command::new(executable("fast-agent"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let input = child.stdin.take().unwrap();
        let output = BufReader::with_capacity(64 * 1024, child.stdout.take().unwrap());
        let mut alone = Self { child, input, output };
        alone.ask(1, "initialize", json!({"protocolVersion": 1, "clientCapabilities": {}}));
        alone.read();
        alone.ask(2, "session/new", json!({"cwd": "/", "mcpServers": []}));
        alone.read();
        alone
    }

    fn ask(&mut self, id: u64, method: &str, params: Value) {
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.input.write_all(format!("{message}\n").as_bytes()).unwrap();
    }

    fn read(&mut self) {
        let mut line = String::new();
        assert!(self.output.read_line(&mut line).unwrap() > 0, "the agent ended unexpectedly");
    }

    fn end(mut self) {
        drop(self.input);
        self.child.wait().unwrap();
    }
}

/// Returns the time from its start to its session, in ms.
pub(crate) fn start() -> f64 {
    let begun = Instant::now();
    let alone = Alone::start();
    let took = millis(begun.elapsed());
    alone.end();
    took
}

/// Returns the chunks per second into a pipe that is only read.
pub(crate) fn rate(count: u64) -> f64 {
    let mut alone = Alone::start();
    let begun = Instant::now();
    let text = format!("!stream {count}");
    alone.ask(3, "session/prompt", json!({"sessionId": "fast", "prompt": [{"type": "text", "text": text}]}));
    drop(alone.input);
    let mut buffer = vec![0; 64 * 1024];
    while alone.output.read(&mut buffer).unwrap() > 0 {}
    let took = begun.elapsed().as_secs_f64();
    alone.child.wait().unwrap();
    count as f64 / took
}
