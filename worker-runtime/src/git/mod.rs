//! Runs git with a deadline and without hooks, monitors, pagers and prompts. The caller chooses
//! which other settings of the repository apply, see [`GitSettings`]. Locations from the user's
//! shell (`GIT_DIR`, `GIT_INDEX_FILE`) are always ignored.

pub(crate) mod listen;

#[cfg(test)]
pub(crate) mod killed;

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Instant;

use command_fds::CommandFdExt as _;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

/// Which settings apply, and what they may make git run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GitSettings {
    /// Settings of the named git directory, which is ours. No transport.
    Own,
    /// Settings of the repository and the user, for queries that run no program. No transport.
    Query,
    /// Settings of the repository and the user, with their filters and transports: for
    /// the user's own repositories.
    Trusted,
}

/// Prefixes of git's variables that are kept if the user's settings apply.
const KEPT: [&str; 4] =
    ["GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM", "GIT_CEILING_DIRECTORIES"];
/// Additional prefixes for a trusted repository: the user's identity, and access to remotes.
const KEPT_TRUSTED: [&str; 5] = ["GIT_AUTHOR_", "GIT_COMMITTER_", "GIT_SSH", "GIT_SSL_", "GIT_LFS_"];
/// Settings that override all others.
const SETTINGS: [(&str, &str); 3] =
    [("core.fsmonitor", "false"), ("core.hooksPath", "/dev/null"), ("gc.auto", "0")];
/// Further settings if nothing of the repository may run.
const SETTINGS_UNTRUSTED: [(&str, &str); 3] =
    [("core.untrackedCache", "false"), ("core.splitIndex", "false"), ("diff.ignoreSubmodules", "all")];
/// Further settings for a trusted repository.
const SETTINGS_TRUSTED: [(&str, &str); 3] =
    [("maintenance.auto", "false"), ("submodule.recurse", "false"), ("core.quotePath", "false")];

/// The reason if a size limit is exceeded.
pub(crate) const TOO_LARGE: &str = "too much has changed there";

/// Runs git in a folder.
#[derive(Clone)]
pub(crate) struct Git<'a> {
    pub(crate) folder: &'a Path,
    pub(crate) env: &'a [(OsString, OsString)],
    pub(crate) settings: GitSettings,
    /// Location variables such as `GIT_DIR`.
    pub(crate) places: Vec<(&'static str, OsString)>,
    /// The common deadline of all runs.
    pub(crate) until: Instant,
    /// Open files that git inherits: locks that are held while it runs.
    pub(crate) held: &'a [OwnedFd],
}

/// Why git returned no output.
#[derive(Debug)]
pub(crate) enum GitFailure {
    NotInstalled,
    NotRun(io::Error),
    Late,
    TooLarge,
    /// Git ended with a failure status.
    Refused {
        command: String,
        code: Option<i32>,
        /// Its output: some commands report their result with a failure status.
        printed: Vec<u8>,
        /// The end of its stderr; empty if the repository is not trusted.
        stderr: String,
    },
}

/// Formats the failure as part of a sentence.
impl fmt::Display for GitFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotInstalled => f.write_str("git is not installed"),
            Self::NotRun(error) => write!(f, "git cannot be run: {error}"),
            Self::Late => f.write_str("git did not finish in time"),
            Self::TooLarge => f.write_str(TOO_LARGE),
            Self::Refused { command, .. } => write!(f, "`git {command}` failed"),
        }
    }
}

impl From<GitFailure> for String {
    fn from(failure: GitFailure) -> Self {
        failure.to_string()
    }
}

impl Git<'_> {
    /// Runs git and returns its standard output, at most `limit` bytes.
    ///
    /// # Errors
    ///
    /// See [`GitFailure`] for the reasons.
    pub(crate) fn run<S: AsRef<OsStr>>(
        &self,
        args: &[S],
        stdin: &[u8],
        limit: usize,
    ) -> Result<Vec<u8>, GitFailure> {
        #[cfg(test)]
        killed::step();
        let run_program = run_program(self.command(args), stdin, limit, self.until, self.held);
        let (status, bytes, stderr) = run_program.map_err(|failure| match failure {
            GitFailure::NotRun(error) if error.kind() == io::ErrorKind::NotFound && self.folder.is_dir() => {
                GitFailure::NotInstalled
            }
            other => other,
        })?;
        #[cfg(test)]
        killed::step();
        if status.success() {
            return Ok(bytes);
        }
        let command = args.first().map(|name| name.as_ref().to_string_lossy().into_owned());
        Err(GitFailure::Refused {
            command: command.unwrap_or_default(),
            code: status.code(),
            printed: bytes,
            stderr,
        })
    }

    fn command<S: AsRef<OsStr>>(&self, args: &[S]) -> Command {
        let mut command = Command::new("git");
        command.args(["--no-optional-locks", "--no-pager"]);
        command.args(args).current_dir(self.folder);
        let trusted = self.settings == GitSettings::Trusted;
        let passed = |name: &OsStr| {
            let of = |prefix: &str| name.as_bytes().starts_with(prefix.as_bytes());
            let kept = self.settings != GitSettings::Own && KEPT.iter().any(|kept| name == *kept);
            kept || (trusted && KEPT_TRUSTED.into_iter().any(of)) || !(of("SUBAGENT_") || of("GIT_"))
        };
        command.env_clear();
        command.envs(self.env.iter().filter(|(name, _)| passed(name)).map(|(name, value)| (name, value)));
        command.env("PATH", absolute_path(self.env));
        if self.settings == GitSettings::Own {
            command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
        }
        let more = if trusted { SETTINGS_TRUSTED } else { SETTINGS_UNTRUSTED };
        command.env("GIT_CONFIG_COUNT", (SETTINGS.len() + more.len()).to_string());
        for (index, (name, value)) in SETTINGS.iter().chain(&more).enumerate() {
            command.env(format!("GIT_CONFIG_KEY_{index}"), name);
            command.env(format!("GIT_CONFIG_VALUE_{index}"), value);
        }
        match trusted {
            true => {
                // A program that asks for a password fails.
                command.env("GIT_TERMINAL_PROMPT", "0").env("GIT_ASKPASS", "/bin/false");
                command.env("GIT_EDITOR", ":").env("GIT_MERGE_AUTOEDIT", "no");
                command.stderr(Stdio::piped());
            }
            false => {
                command.env("GIT_NO_LAZY_FETCH", "1").env("GIT_ALLOW_PROTOCOL", "none");
                command.stderr(Stdio::null());
            }
        }
        command.env("LC_ALL", "C").env("GIT_LITERAL_PATHSPECS", "1");
        command.envs(self.places.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        command
    }
}

/// Runs a program. Returns its status, its standard output (at most `limit` bytes) and the end of
/// its stderr. The program inherits the open files in `held`.
pub(crate) fn run_program(
    mut command: Command,
    stdin: &[u8],
    limit: usize,
    until: Instant,
    held: &[OwnedFd],
) -> Result<(ExitStatus, Vec<u8>, String), GitFailure> {
    // Its own process group, so that everything it starts can be ended with it.
    command.process_group(0);
    let held: Vec<OwnedFd> = held.iter().filter_map(|file| file.try_clone().ok()).collect();
    if !held.is_empty() {
        command.preserved_fds(held);
    }
    let mut child = command.spawn().map_err(GitFailure::NotRun)?;
    // Closes our copies of the inherited files.
    drop(command);
    #[cfg(test)]
    killed::running(&child);
    let run_program = listen::read_outputs(&mut child, stdin, limit, until).and_then(|run_program| {
        // Its outputs may end before the process does.
        await_readable(ended(&child)?.as_fd(), until)?;
        Ok(run_program)
    });
    if run_program.is_err() {
        end(&mut child);
    }
    let (bytes, stderr) = run_program?;
    let status = child.wait().map_err(GitFailure::NotRun)?;
    Ok((status, bytes, stderr))
}

/// Returns a descriptor that becomes readable when a process ends.
fn ended(child: &Child) -> Result<OwnedFd, GitFailure> {
    let pid = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw);
    let pid = pid.ok_or_else(|| GitFailure::NotRun(io::ErrorKind::InvalidInput.into()))?;
    let ended = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty());
    ended.map_err(|error| GitFailure::NotRun(error.into()))
}

/// Returns the caller's PATH without relative entries, which would name programs in the folder.
fn absolute_path(env: &[(OsString, OsString)]) -> OsString {
    let path = env.iter().find(|(name, _)| *name == "PATH").map(|(_, path)| path.as_bytes());
    let mut absolute: Vec<&[u8]> = path.unwrap_or_default().split(|byte| *byte == b':').collect();
    absolute.retain(|entry| entry.starts_with(b"/"));
    if absolute.is_empty() {
        // An empty PATH would mean the folder itself.
        absolute.push(b"/dev");
    }
    OsString::from_vec(absolute.join(&b':'))
}

/// Waits for input until the deadline.
fn await_readable(input: BorrowedFd<'_>, until: Instant) -> Result<(), GitFailure> {
    await_one(&mut [PollFd::new(input, PollFlags::POLLIN)], until)
}

/// Waits until one of them has input or has ended.
fn await_one(inputs: &mut [PollFd<'_>], until: Instant) -> Result<(), GitFailure> {
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let wait = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
        match poll(inputs, wait) {
            Ok(0) => return Err(GitFailure::Late),
            Ok(_) => return Ok(()),
            Err(nix::errno::Errno::EINTR) => {}
            Err(error) => return Err(GitFailure::NotRun(error.into())),
        }
    }
}

fn end(child: &mut Child) {
    if let Ok(group) = i32::try_from(child.id()) {
        // It may have ended by itself.
        let _ = killpg(Pid::from_raw(group), Signal::SIGKILL);
    }
    let _ = child.wait();
}
