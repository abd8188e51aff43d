//! What real agents do with tool calls and permissions, one habit per case. Each was observed
//! in a released agent.

use std::io;

use serde_json::{Value, json};

use super::wire::{line, say};
use super::{Hostile, ResponseWaitEnd, SESSION, delegation};

/// Plays a case. Returns `None` if it makes no request.
pub(super) fn play(agent: &mut Hostile, name: &str) -> io::Result<Option<ResponseWaitEnd>> {
    let (case, rest) = name.split_once(' ').unwrap_or((name, ""));
    match case {
        // The permission request omits kind and input of its tool call.
        "request-without-kind" => {
            send_update("tool_call", &edit("call-1", rest))?;
            ask(agent, &json!({"toolCallId": "call-1", "title": "Write"})).map(Some)
        }
        "command-without-kind" => {
            send_update("tool_call", &command("call-1", rest))?;
            ask(agent, &json!({"toolCallId": "call-1", "title": "Bash"})).map(Some)
        }
        // The update says what is requested; the request itself is vaguer.
        "request-of-another-kind" => {
            send_update("tool_call", &json!({"toolCallId": "call-1", "title": "Tool", "status": "pending"}))?;
            send_update("tool_call_update", &edit("call-1", rest))?;
            ask(agent, &json!({"toolCallId": "call-1", "title": "Write", "kind": "other"})).map(Some)
        }
        // The permission request has an id of its own. A rejected call is reported as completed.
        "request-of-another-id" => {
            send_update("tool_call", &edit("call-1", rest))?;
            let answer = ask(agent, &json!({"toolCallId": "asks-1", "title": "write_file"}))?;
            rejected("call-1")?;
            Ok(Some(answer))
        }
        // The same with two calls at once, so that the request fits both. A second word is its kind.
        "request-of-one-of-two" => {
            let (path, kind) = rest.split_once(' ').unwrap_or((rest, ""));
            send_update("tool_call", &edit("call-1", path))?;
            send_update("tool_call", &edit("call-2", path))?;
            let answer = ask(agent, &confirmation(kind))?;
            rejected("call-1")?;
            rejected("call-2")?;
            Ok(Some(answer))
        }
        // The permission request shows only the beginning of the command.
        "request-of-a-short-command" => {
            send_update("tool_call", &command("call-1", rest))?;
            let short: String = rest.chars().take(6).collect();
            let input = json!({"command": format!("{short}...")});
            ask(agent, &json!({"toolCallId": "call-1", "title": "Bash", "rawInput": input})).map(Some)
        }
        // Only the call shows the change or the address.
        "request-without-diff" => {
            let diff = json!({"type": "diff", "path": rest, "oldText": "one\n", "newText": "two\n"});
            let mut call = edit("call-1", rest);
            call["content"] = json!([diff]);
            send_update("tool_call", &call)?;
            ask(agent, &json!({"toolCallId": "call-1", "title": "Write"})).map(Some)
        }
        "request-without-address" => {
            let call = json!({"toolCallId": "call-1", "title": "Fetch", "kind": "fetch",
                              "rawInput": {"url": rest}});
            send_update("tool_call", &call)?;
            ask(agent, &json!({"toolCallId": "call-1", "title": "Fetch"})).map(Some)
        }
        // It has a tool `task`, and gives the tools of MCP servers no prefix: one of that name is
        // not called.
        "task-of-its-own" => {
            say(&delegation::task(&agent.servers, rest)?)?;
            Ok(None)
        }
        "tools" => {
            say(&delegation::tools(&agent.servers)?)?;
            Ok(None)
        }
        // The permission request is empty but for a kind, and no call was reported.
        "request-of-a-title" => ask(agent, &confirmation(rest)).map(Some),
        // The call has no kind, and only its input describes it.
        "input-without-kind" => {
            let input = json!({"file_path": rest, "content": "x"});
            ask(agent, &json!({"toolCallId": "asks-1", "title": "write_file", "rawInput": input})).map(Some)
        }
        _ => Err(io::Error::other(format!("hostile-agent: unknown quirk {name}"))),
    }
}

/// Writes a session's history before the response to `session/resume`.
pub(super) fn history() -> io::Result<()> {
    say("said long ago")?;
    let mut call = command("call-0", "touch old.txt");
    call["status"] = "completed".into();
    send_update("tool_call", &call)
}

fn edit(id: &str, path: &str) -> Value {
    json!({"toolCallId": id, "title": "Write a file", "kind": "edit", "status": "pending",
           "rawInput": {"file_path": path, "content": "x"}, "locations": [{"path": path}]})
}

fn command(id: &str, line: &str) -> Value {
    json!({"toolCallId": id, "title": "Bash", "kind": "execute", "status": "pending",
           "rawInput": {"command": line}})
}

/// A request that shows nothing of its call.
fn confirmation(kind: &str) -> Value {
    let mut call = json!({"toolCallId": "asks-1", "title": "Confirm Agent Actions"});
    if !kind.is_empty() {
        call["kind"] = kind.into();
    }
    call
}

fn rejected(id: &str) -> io::Result<()> {
    let text = json!({"type": "text", "text": "The user rejected this call."});
    let content = json!([{"type": "content", "content": text}]);
    send_update("tool_call_update", &json!({"toolCallId": id, "status": "completed", "content": content}))
}

fn send_update(kind: &str, call: &Value) -> io::Result<()> {
    let mut update = call.clone();
    update["sessionUpdate"] = kind.into();
    let params = json!({"sessionId": SESSION, "update": update});
    line(&json!({"jsonrpc": "2.0", "method": "session/update", "params": params}))
}

fn ask(agent: &mut Hostile, call: &Value) -> io::Result<ResponseWaitEnd> {
    let options = json!([
        {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
        {"optionId": "no", "name": "No", "kind": "reject_once"},
    ]);
    agent.permission(call.clone(), &options)
}
