//! A MCP server on standard input and output with one tool, `echo`, for the agents of tests. It
//! implements only what they need, and ends with its standard input.

#![allow(clippy::print_stdout, reason = "standard output is how it speaks")]

use std::io::{BufRead, Write, stdin, stdout};

use serde_json::{Value, json};

/// The version for clients that request none.
const VERSION: &str = "2025-06-18";

fn answer(request: &Value) -> Result<Value, Value> {
    match request["method"].as_str().unwrap_or_default() {
        "initialize" => Ok(json!({
            "protocolVersion": request.pointer("/params/protocolVersion").unwrap_or(&json!(VERSION)),
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "echo", "version": "1"},
        })),
        "ping" => Ok(json!({})),
        "tools/list" => Ok(json!({"tools": [{
            "name": "echo",
            "description": "Says a text back",
            "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
        }]})),
        "tools/call" => {
            let text = request.pointer("/params/arguments/text").and_then(Value::as_str).unwrap_or_default();
            Ok(json!({"content": [{"type": "text", "text": format!("echo: {text}")}], "isError": false}))
        }
        other => Err(json!({"code": -32601, "message": format!("no method {other}")})),
    }
}

fn main() -> std::io::Result<()> {
    for line in stdin().lock().lines() {
        let Ok(request) = serde_json::from_str::<Value>(&line?) else { continue };
        // Only requests have an id; notifications get no response.
        let Some(id) = request.get("id") else { continue };
        let response = match answer(&request) {
            Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
            Err(error) => json!({"jsonrpc": "2.0", "id": id, "error": error}),
        };
        let mut out = stdout().lock();
        writeln!(out, "{response}")?;
        out.flush()?;
    }
    Ok(())
}
