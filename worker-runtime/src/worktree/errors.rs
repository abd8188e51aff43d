//! The errors of worktree operations, with codes.

use std::io;
use std::path::Path;

use subagent_protocol::{Code, Error};

use crate::git::GitFailure;

/// The texts by which git reports a full disk.
const FULL: [&str; 2] = ["No space left on device", "Disk quota exceeded"];
/// The texts by which git reports a failed write without its reason.
const UNWRITTEN: [&str; 5] =
    ["unable to write", "couldn't write", "could not write", "failed to write", "error writing"];
/// The advice for a full disk.
const MAKE_ROOM: &str = "make room on the disk of the repository and of its worktrees, and try again";
/// The names that git and Git LFS give to a filter.
const FILTER: [&str; 4] = ["smudge filter", "clean filter", "external filter", "filter-process"];
/// The texts by which git or its shell reports that the program of a filter fails.
const FAILED: [&str; 2] = ["failed", "not found"];
/// The advice for a failed filter.
const INSTALL_FILTER: &str =
    "install the program of the filter, such as git-lfs, on the PATH of the daemon, and try again";

impl From<GitFailure> for Error {
    fn from(failure: GitFailure) -> Self {
        match &failure {
            GitFailure::NotInstalled => needs_git("notInstalled", "git is not installed"),
            GitFailure::Refused { command, code, stderr, .. }
                if FULL.iter().any(|full| stderr.contains(full)) =>
            {
                Self::new(Code::StorageFull, format!("`git {command}` failed: the disk is full"))
                    .retryable()
                    .recommend(MAKE_ROOM)
                    .with("output", stderr.clone())
                    .with("exitCode", *code)
            }
            GitFailure::Refused { command, code, stderr, .. } => {
                let filter = failed_filter(stderr);
                let reason = filter.or(stderr.lines().last()).unwrap_or("without a message");
                let error = Self::new(Code::GitFailed, format!("`git {command}` failed: {reason}"))
                    .with("command", format!("git {command}"))
                    .with("output", stderr.clone())
                    .with("exitCode", *code);
                if UNWRITTEN.iter().any(|text| stderr.contains(text)) {
                    error.retryable().recommend(MAKE_ROOM)
                } else if filter.is_some() {
                    error.recommend(INSTALL_FILTER)
                } else {
                    error
                }
            }
            _ => Self::new(Code::GitFailed, failure.to_string()),
        }
    }
}

/// Returns the line about a failed filter, such as Git LFS without its program. Git's own last line
/// is then about a lost connection.
fn failed_filter(stderr: &str) -> Option<&str> {
    let has = |line: &str, texts: &[&str]| texts.iter().any(|text| line.contains(text));
    stderr.lines().find(|line| has(line, &FILTER) && has(line, &FAILED))
}

/// A file operation failed.
pub(super) fn file(path: &Path, error: &io::Error) -> Error {
    Error::new(Code::GitFailed, format!("{}: {error}", path.display()))
        .with("path", path.display().to_string())
        .or_storage_full(error)
}

pub(super) fn needs_git(reason: &str, message: impl Into<String>) -> Error {
    Error::new(Code::WorktreeNeedsGit, message).with("reason", reason)
}

pub(super) fn busy(reason: &str, message: impl Into<String>) -> Error {
    Error::new(Code::WorktreeBusy, message).with("reason", reason).retryable()
}

/// A lock file, or one of our locks, is held.
pub(super) fn locked(path: &Path) -> Error {
    let message = format!("another program holds the lock {}", path.display());
    busy("locked", message)
        .with("path", path.display().to_string())
        .recommend("wait for the other git to end, or delete the lock if none runs, and try again")
}

pub(super) fn exists(key: &str, value: &str) -> Error {
    let what = if key == "branch" { "branch" } else { "folder" };
    Error::new(Code::WorktreeExists, format!("the {what} {value} exists"))
        .with(key, value)
        .recommend("choose another name or branch")
}

pub(super) fn not_found(path: &Path, why: &str) -> Error {
    Error::new(Code::WorktreeNotFound, format!("{}: {why}", path.display()))
        .with("path", path.display().to_string())
}

pub(super) fn argument(field: &str, message: impl Into<String>) -> Error {
    Error::new(Code::InvalidArgument, message).with("field", field)
}

/// A landing was refused.
pub(super) fn refused(reason: &str, message: impl Into<String>) -> Error {
    Error::new(Code::LandRefused, message).with("reason", reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_filter_is_named_and_a_file_with_that_name_is_none() {
        for line in [
            "fatal: a.bin: smudge filter lfs failed",
            "error: external filter 'git-lfs clean -- %f' failed 127",
            "git-lfs filter-process: 1: git-lfs: not found",
        ] {
            let output = format!("first\n{line}\nfatal: the remote end hung up unexpectedly");
            assert_eq!(failed_filter(&output), Some(line));
        }
        assert_eq!(failed_filter("error: patch failed: src/filter.rs:1"), None);
        assert_eq!(failed_filter("fatal: path 'filter' not found"), None);
    }
}
