//! Runs git with a deadline, and without anything that the repository could make it run.
//!
//! The repository is the agent's, its config too. Only [`super::find`] lets git read that config, for questions that run
//! no program. Everything else works with a git directory of ours: no hook, filter, monitor or transport is set there.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use super::limits::TOO_LARGE;

/// Which settings of the caller count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Settings {
    /// The repository's and the user's.
    All,
    /// Those of the git directory that is named.
    Own,
}

/// What the caller's git gets of git's own variables, where all settings count.
const KEPT: [&str; 4] =
    ["GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM", "GIT_CEILING_DIRECTORIES"];
/// Win over all others.
const SETTINGS: [(&str, &str); 6] = [
    ("core.fsmonitor", "false"),
    ("core.hooksPath", "/dev/null"),
    ("core.untrackedCache", "false"),
    ("core.splitIndex", "false"),
    ("gc.auto", "0"),
    ("diff.ignoreSubmodules", "all"),
];

/// Git in a folder.
pub(super) struct Git<'a> {
    pub(super) folder: &'a Path,
    pub(super) env: &'a [(OsString, OsString)],
    pub(super) settings: Settings,
    /// `GIT_DIR` and the like.
    pub(super) places: Vec<(&'static str, OsString)>,
    /// For all that is run together.
    pub(super) until: Instant,
}

impl Git<'_> {
    /// Returns what it prints: all of it, `limit` bytes at most.
    ///
    /// # Errors
    /// Why not, as a part of a sentence.
    pub(super) fn run(&self, args: &[&str], stdin: &[u8], limit: usize) -> Result<Vec<u8>, String> {
        let mut child = self.command(args).spawn().map_err(|error| match error.kind() {
            io::ErrorKind::NotFound if self.folder.is_dir() => "git is not installed".to_owned(),
            _ => format!("git cannot be run: {error}"),
        })?;
        let heard = self.hear(&mut child, stdin, limit).and_then(|bytes| {
            self.await_end(&child)?;
            Ok(bytes)
        });
        if heard.is_err() {
            end(&mut child);
        }
        let bytes = heard?;
        let status = child.wait().map_err(|error| format!("git cannot be waited for: {error}"))?;
        let name = args.first().unwrap_or(&"");
        if status.success() { Ok(bytes) } else { Err(format!("`git {name}` failed")) }
    }

    fn hear(&self, child: &mut Child, stdin: &[u8], limit: usize) -> Result<Vec<u8>, String> {
        let failed = |error: io::Error| format!("git cannot be heard: {error}");
        if let Some(mut pipe) = child.stdin.take() {
            let stdin = stdin.to_vec();
            // On a thread, which nothing waits for: a git that hangs reads nothing. One that ends early says why with its
            // status.
            std::thread::spawn(move || drop(pipe.write_all(&stdin)));
        }
        let Some(mut stdout) = child.stdout.take() else { return Ok(Vec::new()) };
        let (mut bytes, mut chunk) = (Vec::new(), vec![0; 64 * 1024]);
        loop {
            self.await_readable(stdout.as_fd())?;
            let length = stdout.read(&mut chunk).map_err(failed)?;
            if length == 0 {
                return Ok(bytes);
            }
            if bytes.len() + length > limit {
                return Err(TOO_LARGE.to_owned());
            }
            bytes.extend_from_slice(&chunk[..length]);
        }
    }

    /// Waits until git has ended: its output may end before it.
    fn await_end(&self, child: &Child) -> Result<(), String> {
        let failed = |error: io::Error| format!("git cannot be waited for: {error}");
        let pid = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw);
        let pid = pid.ok_or_else(|| failed(io::ErrorKind::InvalidInput.into()))?;
        let ended = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty());
        let ended = ended.map_err(|error| failed(error.into()))?;
        self.await_readable(ended.as_fd())
    }

    /// Waits for input until the deadline.
    fn await_readable(&self, input: BorrowedFd<'_>) -> Result<(), String> {
        loop {
            let left = self.until.saturating_duration_since(Instant::now());
            let wait = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
            match poll(&mut [PollFd::new(input, PollFlags::POLLIN)], wait) {
                Ok(0) => return Err("git did not finish in time".to_owned()),
                Ok(_) => return Ok(()),
                Err(nix::errno::Errno::EINTR) => {}
                Err(error) => return Err(format!("git cannot be heard: {error}")),
            }
        }
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new("git");
        command.args(["--no-optional-locks", "--no-pager", "--literal-pathspecs"]).args(args);
        command.current_dir(self.folder);
        let passed = |name: &OsStr| {
            let of = |prefix: &str| name.as_bytes().starts_with(prefix.as_bytes());
            let kept = self.settings == Settings::All && KEPT.iter().any(|kept| name == *kept);
            kept || !(of("SUBAGENT_") || of("GIT_"))
        };
        command.env_clear();
        command.envs(self.env.iter().filter(|(name, _)| passed(name)).map(|(name, value)| (name, value)));
        // A relative entry would name a program of the folder.
        let path = self.env.iter().find(|(name, _)| *name == "PATH").map(|(_, path)| path.as_bytes());
        let mut absolute: Vec<&[u8]> = path.unwrap_or_default().split(|byte| *byte == b':').collect();
        absolute.retain(|entry| entry.starts_with(b"/"));
        if absolute.is_empty() {
            // An empty PATH would be the folder itself.
            absolute.push(b"/dev");
        }
        command.env("PATH", OsString::from_vec(absolute.join(&b':')));
        if self.settings == Settings::Own {
            command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
        }
        command.env("GIT_CONFIG_COUNT", SETTINGS.len().to_string());
        for (index, (name, value)) in SETTINGS.iter().enumerate() {
            command.env(format!("GIT_CONFIG_KEY_{index}"), name);
            command.env(format!("GIT_CONFIG_VALUE_{index}"), value);
        }
        command.envs(self.places.iter().map(|(name, value)| (name, value)));
        command.env("GIT_NO_LAZY_FETCH", "1").env("GIT_ALLOW_PROTOCOL", "none").env("LC_ALL", "C");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        // A group of its own, so that what it starts can be ended with it.
        command.process_group(0);
        command
    }
}

fn end(child: &mut Child) {
    if let Ok(group) = i32::try_from(child.id()) {
        // It may have ended by itself.
        let _ = killpg(Pid::from_raw(group), Signal::SIGKILL);
    }
    let _ = child.wait();
}
