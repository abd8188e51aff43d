//! The output of the hostile agent: messages written by hand, and invalid bytes. Decides nothing.

use std::io;
use std::os::fd::AsFd as _;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde_json::{Value, json};

use super::SESSION;

/// Returns a request whose parameters have these members besides session and message.
pub(super) fn elicitation(id: &Value, members: &str) -> String {
    format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"elicitation/create\",\"params\":{{\"sessionId\":\"{SESSION}\",\"message\":\"m\",{members}}}}}"
    )
}

pub(super) fn tool() -> Value {
    json!({"toolCallId": "t-1", "title": "do something", "kind": "execute", "status": "pending"})
}

pub(super) fn update_for(session: &Value, text: &str) -> Value {
    let update = json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}});
    json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": session, "update": update}})
}

pub(super) fn update_line(text: &str) -> String {
    update_for(&json!(SESSION), text).to_string()
}

pub(super) fn say(text: &str) -> io::Result<()> {
    raw(&update_line(text))
}

pub(super) fn answer(id: &Value, result: &Value) -> io::Result<()> {
    line(&json!({"jsonrpc": "2.0", "id": id, "result": result}))
}

pub(super) fn line(message: &Value) -> io::Result<()> {
    raw(&message.to_string())
}

pub(super) fn raw(text: &str) -> io::Result<()> {
    write(format!("{text}\n").as_bytes())
}

/// Writes a `session/update` whose `update` has these members, verbatim.
pub(super) fn raw_update(members: &str) -> io::Result<()> {
    raw(&format!(
        "{{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{{\"sessionId\":\"{SESSION}\",\"update\":{{{members}}}}}}}"
    ))
}

/// Returns the line of a chunk with `slot` as its text, and the slot replaced by these bytes.
pub(super) fn replaced(slot: &str, by: &[u8]) -> Vec<u8> {
    let line = update_line(slot);
    let (head, tail) = line.split_once(slot).unwrap_or((line.as_str(), ""));
    [head.as_bytes(), by, tail.as_bytes(), b"\n"].concat()
}

pub(super) fn head_of(line: &str, bytes: usize) -> Vec<u8> {
    let mut head = line.as_bytes()[..bytes.min(line.len())].to_vec();
    head.push(b'\n');
    head
}

/// Writes a chunk as a line of `bytes` bytes (or the shortest possible), without
/// holding it in memory.
pub(super) fn long_line(bytes: usize) -> io::Result<()> {
    static BLOCK: [u8; 64 * 1024] = [b'x'; 64 * 1024];
    let frame = update_line("@");
    let (head, tail) = frame.split_once('@').unwrap_or((frame.as_str(), ""));
    let mut left = bytes.saturating_sub(frame.len());
    write(head.as_bytes())?;
    while left > 0 {
        let part = left.min(BLOCK.len());
        write(&BLOCK[..part])?;
        left -= part;
    }
    raw(tail)
}

pub(super) fn bytewise(text: &str) -> io::Result<()> {
    text.as_bytes().chunks(1).try_for_each(write)
}

/// Waits until the client closes our stdin, without reading from it.
pub(super) fn wait_for_hangup() -> io::Result<()> {
    let stdin = io::stdin();
    loop {
        let mut watched = [PollFd::new(stdin.as_fd(), PollFlags::empty())];
        match poll(&mut watched, PollTimeout::NONE) {
            Ok(_) => std::process::exit(0),
            Err(nix::errno::Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Writes to the descriptor directly: one write here is one write on the wire.
pub(super) fn write(bytes: &[u8]) -> io::Result<()> {
    let mut rest = bytes;
    while !rest.is_empty() {
        match nix::unistd::write(io::stdout().as_fd(), rest) {
            Ok(written) => rest = &rest[written..],
            Err(nix::errno::Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
