//! Plays another local user: one attempt per start, reported in one line. Exits with 0 if it
//! succeeded. Also plays the task server of an agent: submits a task with its worker's token
//! and waits for it.

#![allow(clippy::print_stdout, reason = "its output is what the test reads")]

#[path = "stranger/crowd.rs"]
mod crowd;

use std::fs;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::time::Duration;

use serde_json::Value;
use subagent_protocol::api::header;

/// How long a peer that is not refused may take for an answer.
const ANSWER: Duration = Duration::from_secs(5);
/// Time limit for a task.
const TASK: Duration = Duration::from_secs(300);

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let done = match args.as_slice() {
        ["connect", path] => UnixStream::connect(path).map(|_| Vec::new()),
        ["ask", path, text] => UnixStream::connect(path).and_then(|stream| ask(stream, text)),
        ["tcp", address, text] => TcpStream::connect(address).and_then(|stream| ask(stream, text)),
        ["task", socket, body] => task(socket, body),
        ["crowd", socket, count, head, body, opened, gate] => {
            crowd::hold(socket, count, (head, body), (opened, gate))
        }
        ["flood", path, begun] => flood(path, begun),
        ["read", path] => fs::read(path),
        ["list", path] => fs::read_dir(path).map(|entries| {
            let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
            names.collect::<Vec<_>>().join("\n").into_bytes()
        }),
        ["mkdir", path] => fs::create_dir(path).map(|()| Vec::new()),
        ["link", target, path] => symlink(target, path).map(|()| Vec::new()),
        _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "no such attempt")),
    };
    match done {
        Ok(bytes) => {
            println!("{}", String::from_utf8_lossy(&bytes));
            ExitCode::SUCCESS
        }
        Err(error) => {
            println!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Submits the task in this file for the worker above this process. Waits for a foreground task.
/// Returns `NAME STATUS: RESULT`.
fn task(socket: &str, body: &str) -> io::Result<Vec<u8>> {
    let wrong = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
    let marker = std::env::var("SUBAGENT_MARKER").map_err(|_| wrong("below no worker"))?;
    let worker = marker.split('.').next().unwrap_or_default();
    let folder = std::path::Path::new(socket).parent().ok_or_else(|| wrong("no folder"))?;
    let ending = format!("-{worker}.env");
    let kept =
        fs::read_dir(folder)?.flatten().find(|entry| entry.file_name().to_string_lossy().ends_with(&ending));
    let kept: Value =
        serde_json::from_slice(&fs::read(kept.ok_or_else(|| wrong("nothing is kept"))?.path())?)?;
    let token = kept["taskToken"].as_str().unwrap_or("none");
    let given = post(socket, token, "/v1/tasks", &fs::read_to_string(body)?)?;
    let Some(id) = given["data"]["taskId"].as_str() else {
        return Ok(given["error"].to_string().into_bytes());
    };
    let shown = match given["data"]["mode"].as_str() {
        Some("foreground") => post(socket, token, &format!("/v1/tasks/{id}/wait"), "{}")?,
        _ => given.clone(),
    };
    let word = |name: &str| shown["data"][name].as_str().unwrap_or_default().to_owned();
    Ok(format!("{} {}: {}", word("name"), word("status"), word("result")).into_bytes())
}

fn post(socket: &str, token: &str, path: &str, body: &str) -> io::Result<Value> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(TASK))?;
    let length = body.len();
    let request = format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\n{}: {token}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}",
        header::TASK_TOKEN
    );
    match stream.write_all(request.as_bytes()) {
        // The daemon may refuse a request before it has read all of it.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => return Err(error),
        _ => {}
    }
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (_, body) = answer.split_once("\r\n\r\n").ok_or(io::ErrorKind::UnexpectedEof)?;
    Ok(serde_json::from_str(body)?)
}

/// Sends endless requests without reading an answer, until it is killed. Creates the file `begun`
/// after the first megabyte.
fn flood(socket: &str, begun: &str) -> io::Result<Vec<u8>> {
    const HEAD: &[u8] = b"POST /v1/tasks HTTP/1.1\r\nHost: localhost\r\nContent-Length: 30000000\r\n\r\n";
    let (chunk, mut sent) = (vec![b'x'; 64 * 1024], 0);
    loop {
        let mut stream = UnixStream::connect(socket)?;
        let mut more = stream.write_all(HEAD);
        while more.is_ok() {
            more = stream.write_all(&chunk);
            sent += chunk.len();
            if sent >= 1 << 20 {
                fs::write(begun, "")?;
            }
        }
    }
}

/// Sends a text and returns the answer. A connection closed without an answer is an error.
fn ask(stream: impl Into<OwnedFd>, text: &str) -> io::Result<Vec<u8>> {
    // A socket of either family is read and written in the same way.
    let mut stream = UnixStream::from(stream.into());
    stream.set_read_timeout(Some(ANSWER))?;
    stream.write_all(text.replace("\\n", "\r\n").as_bytes())?;
    let mut answer = vec![0; 64 * 1024];
    match stream.read(&mut answer)? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        length => Ok(answer[..length].to_vec()),
    }
}
