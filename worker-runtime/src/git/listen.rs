//! Feeds a process and reads both its outputs until they end.

use std::io::{PipeReader, Read, Write as _};
use std::os::fd::AsFd as _;
use std::process::{Child, ExitStatus};
use std::time::Instant;

use nix::poll::{PollFd, PollFlags};

use super::{GitFailure, await_one};

/// Bytes kept from the end of a process's stderr.
pub(crate) const MAX_STDERR_BYTES: usize = 4096;
const CHUNK: usize = 64 * 1024;

/// Returns the standard output (at most `limit` bytes) and the end of stderr.
pub(crate) fn read_outputs(
    child: &mut Child,
    stdin: &[u8],
    limit: usize,
    until: Instant,
) -> Result<(Vec<u8>, String), GitFailure> {
    if let Some(mut pipe) = child.stdin.take() {
        let stdin = stdin.to_vec();
        if stdin.is_empty() {
            drop(pipe);
        } else {
            // On a detached thread: a process that hangs reads nothing. If one ends early,
            // its status says why.
            std::thread::spawn(move || drop(pipe.write_all(&stdin)));
        }
    }
    let (mut stdout, mut errors) = (child.stdout.take(), child.stderr.take());
    let (mut bytes, mut stderr) = (Vec::new(), Vec::new());
    let mut chunk = vec![0; CHUNK];
    loop {
        let (mut inputs, mut order) = (Vec::new(), Vec::new());
        if let Some(pipe) = &stdout {
            inputs.push(PollFd::new(pipe.as_fd(), PollFlags::POLLIN));
            order.push(true);
        }
        if let Some(pipe) = &errors {
            inputs.push(PollFd::new(pipe.as_fd(), PollFlags::POLLIN));
            order.push(false);
        }
        if inputs.is_empty() {
            return Ok((bytes, cleaned(&stderr)));
        }
        await_one(&mut inputs, until)?;
        let ready = |input: &PollFd<'_>| input.revents().is_some_and(|seen| !seen.is_empty());
        let ready: Vec<bool> =
            inputs.iter().zip(order).filter(|(input, _)| ready(input)).map(|(_, is_out)| is_out).collect();
        for is_out in ready {
            if is_out {
                if !take(&mut stdout, &mut chunk, &mut bytes)? {
                    stdout = None;
                }
                if bytes.len() > limit {
                    return Err(GitFailure::TooLarge);
                }
            } else {
                if !take(&mut errors, &mut chunk, &mut stderr)? {
                    errors = None;
                }
                let old = stderr.len().saturating_sub(MAX_STDERR_BYTES);
                stderr.drain(..old);
            }
        }
    }
}

/// Reads the only output of a process until its end. Returns its status and the end of the output.
/// Does not wait for processes that it left behind.
pub(crate) fn until_end(
    mut child: Child,
    mut output: PipeReader,
    until: Instant,
) -> Result<(ExitStatus, String), GitFailure> {
    let (mut stderr, mut chunk) = (Vec::new(), vec![0; CHUNK]);
    let ended = super::ended(&child)?;
    loop {
        let mut inputs =
            [PollFd::new(output.as_fd(), PollFlags::POLLIN), PollFd::new(ended.as_fd(), PollFlags::POLLIN)];
        if let Err(failure) = await_one(&mut inputs, until) {
            super::end(&mut child);
            return Err(failure);
        }
        let has_output = inputs[0].revents().is_some_and(|seen| seen.contains(PollFlags::POLLIN));
        if has_output {
            let length = output.read(&mut chunk).map_err(GitFailure::NotRun)?;
            stderr.extend_from_slice(&chunk[..length]);
            let old = stderr.len().saturating_sub(MAX_STDERR_BYTES);
            stderr.drain(..old);
        } else if inputs[1].any() == Some(true) {
            return Ok((child.wait().map_err(GitFailure::NotRun)?, cleaned(&stderr)));
        } else {
            // Its output ended before the process did.
            super::await_readable(ended.as_fd(), until).inspect_err(|_| super::end(&mut child))?;
        }
    }
}

/// Reads once; returns false at the end.
fn take<R: Read>(pipe: &mut Option<R>, chunk: &mut [u8], to: &mut Vec<u8>) -> Result<bool, GitFailure> {
    let Some(pipe) = pipe else { return Ok(false) };
    let length = pipe.read(chunk).map_err(GitFailure::NotRun)?;
    to.extend_from_slice(&chunk[..length]);
    Ok(length > 0)
}

/// Returns text that is safe to print on a terminal.
pub(crate) fn cleaned(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let shown = |char: char| match char {
        '\n' | '\t' => char,
        '\r' => '\n',
        _ if char.is_control() => '\u{fffd}',
        _ => char,
    };
    text.chars().map(shown).collect::<String>().trim().to_owned()
}
