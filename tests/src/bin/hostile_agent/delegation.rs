//! A client of the task server that gives its tools no prefix, as OpenHands does.

use std::io::{self, BufRead, BufReader, Write};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

/// The tool that the agent has itself.
const OWN: &str = "task";
/// The MCP server of subagent.
const SERVER: &str = "subagent";

/// Gives `AGENT PROMPT` as a task, and returns the result: of its own tool, unless the server has
/// one of another name. `\n` in the prompt is a line end.
pub(super) fn task(servers: &Value, rest: &str) -> io::Result<String> {
    let (agent, prompt) = rest.split_once(' ').unwrap_or((rest, ""));
    let prompt = prompt.replace("\\n", "\n");
    with_client(servers, |client| client.task(agent, &prompt))
}

/// Returns the names of the server's tools.
pub(super) fn tools(servers: &Value) -> io::Result<String> {
    with_client(servers, |client| Ok(client.tools()?.join(" ")))
}

/// Starts the server, and does this as its client.
fn with_client(
    servers: &Value,
    work: impl FnOnce(&mut DelegationClient) -> io::Result<String>,
) -> io::Result<String> {
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
    let mut client = DelegationClient { stdin, stdout: BufReader::new(stdout) };
    let result = client.begin().and_then(|()| work(&mut client));
    drop(client);
    // The server ends with its input.
    child.wait()?;
    result
}

struct DelegationClient {
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl DelegationClient {
    fn begin(&mut self) -> io::Result<()> {
        let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {},
                           "clientInfo": {"name": "hostile", "version": "1"}});
        self.ask("initialize", &hello)?;
        writeln!(self.stdin, "{}", json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))
    }

    fn tools(&mut self) -> io::Result<Vec<String>> {
        let listed = self.ask("tools/list", &json!({}))?;
        let tools = listed["tools"].as_array().into_iter().flatten();
        Ok(tools.filter_map(|tool| tool["name"].as_str()).map(str::to_owned).collect())
    }

    fn task(&mut self, agent: &str, prompt: &str) -> io::Result<String> {
        let names = self.tools()?;
        if names.iter().any(|name| name == OWN) {
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
