//! A trial run of bubblewrap: whether it can create the namespaces of a sandbox.

use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// Time limit of the trial, which takes a few milliseconds.
const LIMIT: Duration = Duration::from_secs(10);

/// Runs the program once. The error is its own text, or why it did not run to its end.
pub(crate) fn works(program: &Path) -> Result<(), String> {
    match run(program, LIMIT) {
        Ok(None) => Ok(()),
        Ok(Some(problem)) => Err(format!("{} does not work here: {problem}", program.display())),
        Err(error) => Err(format!("{} cannot be run: {error}", program.display())),
    }
}

/// Returns why the program failed, if it did.
fn run(program: &Path, limit: Duration) -> io::Result<Option<String>> {
    let (mut said, stderr) = io::pipe()?;
    let mut child = Command::new(program)
        .args(["--unshare-pid", "--unshare-ipc", "--unshare-net", "--die-with-parent"])
        .args(["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--", "true"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(stderr)
        .spawn()?;
    let ended = ends_within(&child, limit);
    if !matches!(ended, Ok(true)) {
        // Fails only for a process that has ended.
        let _ = child.kill();
    }
    let status = child.wait()?;
    if !ended? {
        return Ok(Some(format!("it did not end within {limit:?}")));
    }
    if status.success() {
        return Ok(None);
    }
    // A remaining process may hold the pipe open, so this does not read to the end.
    let mut bytes = [0; 4096];
    let length = if is_readable(said.as_fd(), Duration::ZERO)? { said.read(&mut bytes)? } else { 0 };
    Ok(Some(String::from_utf8_lossy(&bytes[..length]).trim().to_owned()))
}

fn ends_within(child: &Child, limit: Duration) -> io::Result<bool> {
    let ended = pidfd_open(Pid::from_child(child), PidfdFlags::empty())?;
    is_readable(ended.as_fd(), limit)
}

fn is_readable(file: BorrowedFd<'_>, limit: Duration) -> io::Result<bool> {
    let until = Instant::now() + limit;
    loop {
        let left = PollTimeout::try_from(until.saturating_duration_since(Instant::now()));
        match poll(&mut [PollFd::new(file, PollFlags::POLLIN)], left.unwrap_or(PollTimeout::MAX)) {
            Err(Errno::EINTR) => {}
            ready => return Ok(ready? > 0),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_program_that_fails_or_hangs_does_not_work() {
        let dir = tempfile::tempdir().unwrap();
        let script = |name: &str, text: &str| {
            let file = dir.path().join(name);
            fs::write(&file, format!("#!/bin/sh\n{text}\n")).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
            file
        };
        let (fails, hangs) =
            (script("fails", "echo no namespaces >&2; exit 1"), script("hangs", "exec sleep 600"));
        assert_eq!(run(&fails, LIMIT).unwrap().as_deref(), Some("no namespaces"));
        let hung = run(&hangs, Duration::from_millis(100)).unwrap();
        assert_eq!(hung.as_deref(), Some("it did not end within 100ms"));
        assert!(works(&dir.path().join("missing")).unwrap_err().contains("cannot be run"));
    }
}
