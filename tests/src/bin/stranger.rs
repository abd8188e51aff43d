//! What another local user tries: one attempt for each start, told in one line. Exits with 0 when it got through.

#![allow(clippy::print_stdout, reason = "its output is what the test reads")]

use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::time::Duration;

/// A peer that is not refused at once has this long to say something.
const ANSWER: Duration = Duration::from_secs(5);

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let done = match args.as_slice() {
        ["connect", path] => UnixStream::connect(path).map(|_| Vec::new()),
        ["ask", path, text] => ask(path, text),
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

/// Connects, says something and gives the answer; a connection that is closed without a word is an error.
fn ask(path: &str, text: &str) -> io::Result<Vec<u8>> {
    let mut stream = UnixStream::connect(path)?;
    stream.set_read_timeout(Some(ANSWER))?;
    stream.write_all(text.replace("\\n", "\r\n").as_bytes())?;
    let mut answer = vec![0; 64 * 1024];
    match stream.read(&mut answer)? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        length => Ok(answer[..length].to_vec()),
    }
}
