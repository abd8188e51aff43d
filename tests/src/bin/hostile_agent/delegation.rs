//! A client of the task server that gives its tools no prefix, as OpenHands does.

use std::io::{self, BufRead, BufReader, Write};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

/// The tool that the agent has itself.
const OWN: &str = "task";
/// The MCP server of subagent.
const SERVER: &str = "subagent";

/// Gives `AGENT PROMPT` as a task, and returns the result: of its own tool, unless the server has
/// one of another name.
pub(super) fn task(servers: &Value, rest: &str) -> io::Result<String> {
    let (agent, prompt) = rest.split_once(' ').unwrap_or((rest, ""));
    let server = servers.as_array().into_iter().flatten().find(|server| server["name"] == SERVER);
    let server = server.ok_or_else(|| io::Error::other("there is no task server"))?;
    let args = server["args"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let env = server["env"].as_array().into_iter().flatten();
    let mut child = Command::new(text(&server["command"]))
        .args(args)
        .envs(env.map(|variable| (text(&variable["name"]), text(&variable["value"]))))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(io::Error::other("the task server has no pipes"));
    };
    let result = DelegationClient { stdin, stdout: BufReader::new(stdout) }.task(agent, prompt);
    // The server ends with its input.
    child.wait()?;
    result
}

struct DelegationClient {
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl DelegationClient {
    fn task(mut self, agent: &str, prompt: &str) -> io::Result<String> {
        let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {},
                           "clientInfo": {"name": "hostile", "version": "1"}});
        self.ask("initialize", &hello)?;
        let listed = self.ask("tools/list", &json!({}))?;
        let tools = listed["tools"].as_array().into_iter().flatten();
        let names: Vec<&str> = tools.filter_map(|tool| tool["name"].as_str()).collect();
        if names.contains(&OWN) {
            return Ok(format!("its own tool {OWN} was called"));
        }
        let name = names.into_iter().find(|name| name.ends_with(OWN));
        let name = name.ok_or_else(|| io::Error::other("the server has no tool for tasks"))?;
        let arguments = json!({"agent": agent, "description": "A task", "prompt": prompt});
        let result = self.ask("tools/call", &json!({"name": name, "arguments": arguments}))?;
        Ok(format!("{name}: {}", result["content"][0]["text"]))
    }

    /// Returns the result of a request. Skips all other messages.
    fn ask(&mut self, method: &str, params: &Value) -> io::Result<Value> {
        writeln!(
            self.stdin,
            "{}",
            json!({"jsonrpc": "2.0", "id": method, "method": method, "params": params})
        )?;
        loop {
            let mut line = String::new();
            if self.stdout.read_line(&mut line)? == 0 {
                return Err(io::Error::other("the task server ended"));
            }
            let mut message: Value = serde_json::from_str(&line).map_err(io::Error::other)?;
            if message["id"] == method {
                return Ok(message["result"].take());
            }
        }
    }
}
