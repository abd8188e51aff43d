//! An agent with minimal cost, so that measurements show only the product. It has one thread,
//! blocking reads, and lines built without a serializer. `subagent_tests::fast_agent` describes its
//! prompts. It answers at once and does not read its input while it writes a turn.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, ppoll};
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};
use subagent_tests::fast_agent::{self, Order, STAMP, begin_chunk, end_chunk};

/// Bytes collected before a write: the capacity of a pipe.
const BUFFER: usize = 64 * 1024;
/// Number of chunks of a flood between two clock reads.
const BURST: u64 = 256;

fn main() -> ExitCode {
    match serve() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // The error is lost if stderr is closed.
            let _ = writeln!(io::stderr(), "fast-agent: {error}");
            ExitCode::FAILURE
        }
    }
}

fn serve() -> io::Result<()> {
    let mut input = BufReader::new(File::from(io::stdin().as_fd().try_clone_to_owned()?));
    let mut out =
        io::BufWriter::with_capacity(BUFFER, File::from(io::stdout().as_fd().try_clone_to_owned()?));
    let mut line = Vec::new();
    while input.read_until(b'\n', &mut line)? > 0 {
        let message: Value = serde_json::from_slice(&line).unwrap_or_default();
        if let (Some(method), Some(id)) = (message["method"].as_str(), message.get("id")) {
            let answer = match method {
                "initialize" => {
                    let info = json!({"name": "fast-agent", "version": env!("CARGO_PKG_VERSION")});
                    Ok(json!({"protocolVersion": 1, "agentCapabilities": {}, "agentInfo": info}))
                }
                "session/new" => Ok(json!({"sessionId": fast_agent::SESSION})),
                "session/prompt" => {
                    let blocks = message["params"]["prompt"].as_array();
                    let text =
                        blocks.and_then(|blocks| blocks.iter().find_map(|block| block["text"].as_str()));
                    turn(Order::parse(text.unwrap_or_default()), &mut out)?;
                    Ok(json!({"stopReason": "end_turn"}))
                }
                _ => Err(json!({"code": -32601, "message": "no such method"})),
            };
            let answer = match answer {
                Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
                Err(error) => json!({"jsonrpc": "2.0", "id": id, "error": error}),
            };
            serde_json::to_writer(&mut out, &answer)?;
            out.write_all(b"\n")?;
            out.flush()?;
        }
        line.clear();
    }
    Ok(())
}

fn turn(order: Order, out: &mut impl Write) -> io::Result<()> {
    let mut line = Vec::new();
    let mut say = |text: &[u8], out: &mut dyn Write| {
        begin_chunk(&mut line);
        line.extend_from_slice(text);
        end_chunk(&mut line);
        out.write_all(&line)
    };
    match order {
        Order::Say => say(b"ok", out),
        Order::Stream(count) => (0..count).try_for_each(|index| say(fast_agent::text(index).as_bytes(), out)),
        Order::Flood(seconds) => {
            let end = Instant::now() + Duration::from_secs(seconds);
            let mut index = 0;
            while Instant::now() < end {
                for _ in 0..BURST {
                    say(fast_agent::text(index).as_bytes(), out)?;
                    index += 1;
                }
            }
            Ok(())
        }
        Order::Pace(rate, seconds) => {
            let period = 1_000_000_000 / rate;
            let begin = now()?;
            for index in 0..rate * seconds {
                wait_until(begin + index * period)?;
                say(format!("{STAMP}{}", now()?).as_bytes(), out)?;
                out.flush()?;
            }
            Ok(())
        }
        Order::Line(bytes) => say(&vec![b'x'; fast_agent::text_of_line(bytes)], out),
    }
}

/// Reads the monotonic clock, which all processes share, in nanoseconds.
fn now() -> io::Result<u64> {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC)?;
    u64::try_from(Duration::from(now).as_nanos()).map_err(io::Error::other)
}

/// Waits until a moment, which may have passed: polls nothing, with a timeout in nanoseconds.
fn wait_until(moment: u64) -> io::Result<()> {
    while let Some(left) = moment.checked_sub(now()?).filter(|left| *left > 0) {
        let mut nothing: [PollFd<'_>; 0] = [];
        ppoll(&mut nothing, Some(TimeSpec::from(Duration::from_nanos(left))), None)?;
    }
    Ok(())
}
