//! The context of an operation: the caller's environment, its deadline, and its locks.

use std::cell::OnceCell;
use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use subagent_protocol::Error;

use super::lock::Lock;
use super::{errors, waiting};
use crate::git::{Git, GitFailure, GitSettings};

/// The environment of the caller.
pub(super) type CallerEnvironment = [(OsString, OsString)];

/// Upper limit for any operation. The caller's deadline is shorter.
const DEADLINE: Duration = Duration::from_secs(3600);
/// Maximum length of an answer of git.
const MAX_ANSWER: usize = 512 * 1024 * 1024;

/// How long an operation waits for others.
#[derive(Debug, Clone, Copy)]
pub(super) struct WaitLimits {
    /// For another operation on the same worktree.
    pub(super) operation: Duration,
    /// For the lock file of another git.
    pub(super) git: Duration,
}

/// The patience of ordinary operations.
pub(super) const WAIT_LIMITS: WaitLimits =
    WaitLimits { operation: Duration::from_secs(30), git: Duration::from_secs(10) };

/// The state of one operation.
pub(super) struct OperationContext<'a> {
    env: &'a CallerEnvironment,
    waits: WaitLimits,
    until: Instant,
    begun: SystemTime,
    /// Inherited by git: remains of a killed operation finish before the next operation begins.
    held: Vec<OwnedFd>,
    /// Start of an earlier operation that was killed.
    killed: Option<SystemTime>,
    repository: PathBuf,
    /// The program `subagent-runtime`, if this process is another program.
    runtime: Option<PathBuf>,
    /// The version of git, once it is known.
    git_version: OnceCell<(u32, u32)>,
}

impl<'a> OperationContext<'a> {
    pub(super) fn new(env: &'a CallerEnvironment, waits: WaitLimits) -> Self {
        let until = Instant::now() + DEADLINE;
        let (begun, repository) = (SystemTime::now(), PathBuf::new());
        let git_version = OnceCell::new();
        Self {
            env,
            waits,
            until,
            begun,
            held: Vec::new(),
            killed: None,
            repository,
            runtime: None,
            git_version,
        }
    }

    /// For callers other than `subagent-runtime` itself.
    pub(super) fn with_runtime(self, runtime: &Path) -> Self {
        Self { runtime: Some(runtime.to_owned()), ..self }
    }

    /// Returns the path of `subagent-runtime`.
    pub(super) fn runtime(&self) -> std::io::Result<PathBuf> {
        self.runtime.clone().map_or_else(std::env::current_exe, Ok)
    }

    /// Carries out an operation with one more lock.
    pub(super) fn locked<T>(
        &self,
        name: &str,
        path: &Path,
        repository: &Path,
        operation: impl FnOnce(&OperationContext<'a>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let lock = Lock::take(path, name, self.waits.operation)?;
        let mut held = vec![lock.inherited().map_err(|error| errors::file(path, &error))?];
        for file in &self.held {
            held.push(file.try_clone().map_err(|error| errors::file(path, &error))?);
        }
        let killed = [self.killed, lock.killed].into_iter().flatten().min();
        let (env, waits, until, begun) = (self.env, self.waits, self.until, self.begun);
        let (repository, runtime) = (repository.to_owned(), self.runtime.clone());
        let git_version = self.git_version.clone();
        operation(&Self { env, waits, until, begun, held, killed, repository, runtime, git_version })
    }

    /// Whether an earlier operation on this worktree was killed.
    pub(super) const fn was_killed(&self) -> bool {
        self.killed.is_some()
    }

    pub(super) const fn git_version(&self) -> &OnceCell<(u32, u32)> {
        &self.git_version
    }

    pub(super) const fn env(&self) -> &'a CallerEnvironment {
        self.env
    }

    pub(super) const fn until(&self) -> Instant {
        self.until
    }

    pub(super) const fn patience_with_git(&self) -> Duration {
        self.waits.git
    }

    pub(super) fn held(&self) -> &[OwnedFd] {
        &self.held
    }

    pub(super) fn git<'b>(&'b self, folder: &'b Path) -> Git<'b> {
        let (env, until) = (self.env, self.until);
        Git { folder, env, settings: GitSettings::Trusted, places: Vec::new(), until, held: &self.held }
    }

    /// Returns git for a git directory, with or without its work tree.
    pub(super) fn git_of<'b>(&'b self, git_dir: &'b Path) -> Git<'b> {
        Git { places: vec![("GIT_DIR", git_dir.into())], ..self.git(git_dir) }
    }

    /// Runs git in a folder. Waits for the locks of another git.
    pub(super) fn run<S: AsRef<OsStr>>(&self, folder: &Path, args: &[S]) -> Result<Vec<u8>, Error> {
        self.feed(&self.git(folder), args, b"")
    }

    /// The same with input and its own location variables.
    pub(super) fn feed<S: AsRef<OsStr>>(
        &self,
        git: &Git<'_>,
        args: &[S],
        stdin: &[u8],
    ) -> Result<Vec<u8>, Error> {
        self.ask(git, args, stdin)?.map_err(Error::from)
    }

    /// Runs git; a failure is returned as `None`.
    pub(super) fn asked<S: AsRef<OsStr>>(&self, folder: &Path, args: &[S]) -> Result<Option<Vec<u8>>, Error> {
        self.asked_of(&self.git(folder), args)
    }

    /// The same with its own location variables.
    pub(super) fn asked_of<S: AsRef<OsStr>>(
        &self,
        git: &Git<'_>,
        args: &[S],
    ) -> Result<Option<Vec<u8>>, Error> {
        match self.ask(git, args, b"")? {
            Ok(bytes) => Ok(Some(bytes)),
            Err(GitFailure::Refused { .. }) => Ok(None),
            Err(failure) => Err(failure.into()),
        }
    }

    /// The same for callers that inspect the failure. The outer error is a lock that stays.
    pub(super) fn ask<S: AsRef<OsStr>>(
        &self,
        git: &Git<'_>,
        args: &[S],
        stdin: &[u8],
    ) -> Result<Result<Vec<u8>, GitFailure>, Error> {
        let until = Instant::now() + self.waits.git;
        loop {
            let answer = git.run(args, stdin, MAX_ANSWER);
            let Err(GitFailure::Refused { stderr, .. }) = &answer else { return Ok(answer) };
            if let Some(file) = waiting::unwritten_in(stderr) {
                if waiting::until_written(&git.folder.join(file), until) && Instant::now() < until {
                    continue;
                }
                return Ok(answer);
            }
            let Some(lock) = waiting::lock_in(stderr) else { return Ok(answer) };
            // Without the `.` that git prints in a git directory.
            let lock: PathBuf = git.folder.join(lock).components().collect();
            if waiting::until_gone(&lock, until) && Instant::now() < until {
                continue;
            }
            if !self.is_left_over(&lock) {
                return Err(errors::locked(&lock));
            }
            std::fs::remove_file(&lock).map_err(|error| errors::file(&lock, &error))?;
        }
    }

    /// Whether a killed git of ours left this lock file. All of ours have ended, the lock was
    /// created after they began, and it stayed for our whole waiting time. Never true for the index
    /// of a user's work tree.
    fn is_left_over(&self, lock: &Path) -> bool {
        let Some(killed) = self.killed else { return false };
        let made = lock.symlink_metadata().and_then(|meta| meta.modified());
        let of_user = !lock.starts_with(self.repository.join("worktrees")) && lock.ends_with("index.lock");
        let ours = ["worktrees", "modules", "refs", "packed-refs.lock", "logs", "HEAD.lock"];
        let is_ours = !of_user && ours.iter().any(|place| lock.starts_with(self.repository.join(place)));
        is_ours && made.is_ok_and(|made| made + Duration::from_secs(1) >= killed && made < self.begun)
    }
}

/// Returns the text of a single-line output.
pub(super) fn line(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim_end_matches('\n').to_owned()
}

/// A step that changes the disk. Tests kill the process here.
pub(super) fn step() {
    #[cfg(test)]
    crate::git::killed::step();
}
